//! `make demo`: from a rule to running pods in a real cluster, with real commands and their output; and
//! `make demo-autoscaler`: from no node to a running pod. The demo checks every step, and exits with code 1 at the first that fails.

mod karpenter;
mod place;
mod recording;
mod stage;
mod story;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use place::Place;
use recording::Recording;
use stage::Stage;

const USAGE: &str = "usage: demo [--keep] [--context NAME | --karpenter] [--record FILE]";

#[derive(Default)]
struct Args {
    /// Leave Kubernetes running until Ctrl-C.
    keep: bool,
    /// The context of the kubeconfig whose cluster is used; without it, the demo starts one.
    context: Option<String>,
    /// Play the story with Karpenter, on a control plane of its own.
    karpenter: bool,
    /// Where a recording of the short story, or of the one with Karpenter, goes, without its extension.
    record: Option<String>,
}

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let result = parse(std::env::args().skip(1)).and_then(|args| demo(&args));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: the demo failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut from: impl Iterator<Item = String>) -> Result<Args> {
    let mut args = Args::default();
    while let Some(flag) = from.next() {
        match &*flag {
            "--keep" => args.keep = true,
            "--context" => args.context = Some(from.next().context(USAGE)?),
            "--karpenter" => args.karpenter = true,
            "--record" => args.record = Some(from.next().context(USAGE)?),
            _ => bail!(USAGE),
        }
    }
    if args.karpenter && args.context.is_some() {
        bail!(USAGE);
    }
    Ok(args)
}

fn demo(args: &Args) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&interrupted)).context("cannot wait for Ctrl-C")?;
    }
    let place = match &args.context {
        Some(context) => Place::of_context(context)?,
        None if args.karpenter => Place::start_with_karpenter()?,
        None => Place::start()?,
    };
    let stage = Stage::new(place, interrupted);
    let play = match &args.record {
        _ if args.karpenter => karpenter::play,
        Some(_) => story::play_in_short,
        None => story::play,
    };
    let played = play(&stage).and_then(|controller| {
        if args.keep {
            stage.stay()?;
        }
        controller.terminate()
    });
    let cleaned = stage.place().clean_up();
    match (played, cleaned) {
        (Err(error), Err(left)) => bail!("{error:#}\n{left:#}"),
        (played, cleaned) => played.and(cleaned)?,
    }
    if let Some(path) = &args.record {
        Recording::of(&stage.take_output()).write(path)?;
    }
    println!("\nThe demo is complete; its processes are stopped and its files deleted.");
    Ok(())
}
