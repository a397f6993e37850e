//! A process of a control plane or a node, and how to restart it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::Process;

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    log: PathBuf,
    pub(crate) process: Process,
}

impl Part {
    pub(crate) fn start(
        name: &str,
        program: &Path,
        args: Vec<String>,
        env: Vec<(String, String)>,
        logs: &Path,
    ) -> Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let process = spawn(name, program, &args, &env, &log)?;
        Ok(Self { name: name.to_owned(), program: program.to_owned(), args, env, log, process })
    }

    pub(crate) fn restart(&mut self) -> Result<()> {
        self.process = spawn(&self.name, &self.program, &self.args, &self.env, &self.log)?;
        Ok(())
    }
}

fn spawn(name: &str, program: &Path, args: &[String], env: &[(String, String)], log: &Path) -> Result<Process> {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Process::spawn(name, program, &args, &env, log)
}
