//! Shows commands, and what they print.

use std::cell::RefCell;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use harness::{Controller, wait_until};

use crate::place::Place;

/// What was printed, and when.
pub(crate) type Output = Vec<(Duration, String)>;

pub(crate) struct Stage {
    place: Place,
    interrupted: Arc<AtomicBool>,
    begun: Instant,
    output: RefCell<Output>,
}

impl Stage {
    pub(crate) fn new(place: Place, interrupted: Arc<AtomicBool>) -> Self {
        Self { place, interrupted, begun: Instant::now(), output: RefCell::default() }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn take_output(&self) -> Output {
        self.output.take()
    }

    /// Prints what the next commands show.
    pub(crate) fn heading(&self, line: &str) {
        self.print(&format!("\n==> {line}\n"));
    }

    pub(crate) fn print(&self, text: &str) {
        print!("{text}");
        self.output.borrow_mut().push((self.begun.elapsed(), text.to_owned()));
    }

    /// Shows a command and what it prints, which must have `expected` in it, in the line with
    /// `row` if that is not empty. It is run again until it does.
    pub(crate) fn show(&self, command: &str, row: &str, expected: &str) -> Result<()> {
        self.print(&format!("$ {command}\n"));
        let mut last = String::new();
        let what = format!("{expected:?} in the output of this command");
        let result = wait_until(&what, || {
            if let Err(interrupted) = self.check_interrupted() {
                return Ok(Some(Err(interrupted)));
            }
            last = self.run(command)?;
            let mut rows = last.lines().filter(|line| line.contains(row));
            Ok(rows.any(|line| line.contains(expected)).then_some(Ok(())))
        });
        self.print(&last);
        result?
    }

    /// Returns what a command prints, its errors included: they are part of what is shown.
    pub(crate) fn run(&self, command: &str) -> Result<String> {
        let mut shell = self.place.shell(&format!("exec 2>&1; {command}"));
        let output = shell.stdin(Stdio::null()).output().context("cannot run /bin/sh")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(crate) fn start_controller(&self) -> Result<Controller> {
        // It runs as an administrator, whom no policy confines.
        let args = ["run", "--confinement-test=false"];
        self.print(&format!("$ node-resource-advertiser {}\n", args.join(" ")));
        Controller::spawn(&self.place.logs()?, self.place.kubeconfig(), &args, &[])
    }

    pub(crate) fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Leaves everything as it is until Ctrl-C.
    pub(crate) fn stay(&self) -> Result<()> {
        self.heading("Kubernetes keeps running until Ctrl-C. In another terminal:");
        println!("export KUBECONFIG={}", self.place.kubeconfig().display());
        for folder in self.place.programs() {
            println!("export PATH={}:$PATH", folder.display());
        }
        println!("kubectl apply -f examples/dongle.yaml && kubectl get ner");
        while !self.interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}
