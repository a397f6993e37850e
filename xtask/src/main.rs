//! `image archive` puts a program into an image; `image bill` lists what it was built from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use image::archive::{self, Description};
use image::bill::{self, Workspace};
use image::program::Program;

/// Makes a container image of a static program, without a container engine.
#[derive(Debug, Parser)]
enum Command {
    /// Writes an image as one file, an OCI layout that `docker load` takes too; prints its digest.
    Archive {
        /// The program: the only file in the image.
        #[arg(long)]
        program: PathBuf,
        /// The image's name, as registry/repository:tag.
        #[arg(long)]
        reference: String,
        /// An argument that the program is started with by default; may be repeated.
        #[arg(long = "argument")]
        arguments: Vec<String>,
        /// A label, as key=value; may be repeated.
        #[arg(long = "label", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// The time of everything in it, in seconds since 1970.
        #[arg(long, env = "SOURCE_DATE_EPOCH")]
        created: u64,
        /// Where it is written.
        #[arg(long)]
        output: PathBuf,
    },
    /// Writes a bill of materials (CycloneDX) of the crates in a program.
    Bill {
        /// The package that the program is of.
        #[arg(long)]
        package: String,
        /// What it was built for, such as x86_64-unknown-linux-gnu.
        #[arg(long)]
        target: String,
        /// What is in the program besides crates, as name=version; may be repeated.
        #[arg(long = "linked", value_parser = pair)]
        linked: Vec<(String, String)>,
        /// The time of the bill, in seconds since 1970.
        #[arg(long, env = "SOURCE_DATE_EPOCH")]
        created: u64,
        /// Where it is written.
        #[arg(long)]
        output: PathBuf,
    },
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Archive { program, reference, arguments, labels, created, output } => {
            let labels = labels.into_iter().collect();
            let description = Description { reference, arguments, labels, created };
            let archive = archive::build(&Program::read(&program)?, &description)?;
            write(&output, &archive.bytes)?;
            println!("{}", archive.digest);
        }
        Command::Bill { package, target, linked, created, output } => {
            let bill = bill::bill(&Workspace::new(&package, &target)?, &package, &linked, created)?;
            write(&output, format!("{bill:#}\n").as_bytes())?;
        }
    }
    Ok(())
}

fn pair(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').context("write it as key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
