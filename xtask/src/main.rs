//! `xtask image` puts a program into a container image; `xtask sbom` lists what it is built from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use xtask::image::{self, Description};
use xtask::program::Program;
use xtask::sbom::{self, Workspace};

/// Tasks of the build.
#[derive(Debug, Parser)]
enum Command {
    /// Writes a container image as one file, an OCI layout that `docker load` takes too; prints its digest.
    Image {
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
    /// Writes a software bill of materials (CycloneDX) of the crates in a program.
    Sbom {
        /// The package that the program is of.
        #[arg(long)]
        package: String,
        /// What it was built for, such as x86_64-unknown-linux-gnu.
        #[arg(long)]
        target: String,
        /// What is in the program besides crates, as name=version; may be repeated.
        #[arg(long = "linked", value_parser = pair)]
        linked: Vec<(String, String)>,
        /// The time in it, in seconds since 1970.
        #[arg(long, env = "SOURCE_DATE_EPOCH")]
        created: u64,
        /// Where it is written.
        #[arg(long)]
        output: PathBuf,
    },
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Image { program, reference, arguments, labels, created, output } => {
            let labels = labels.into_iter().collect();
            let description = Description { reference, arguments, labels, created };
            let archive = image::build(&Program::read(&program)?, &description)?;
            write(&output, &archive.bytes)?;
            println!("{}", archive.digest);
        }
        Command::Sbom { package, target, linked, created, output } => {
            let workspace = Workspace::new(&package, &target)?;
            let sbom = sbom::build(&workspace, &package, &linked, created)?;
            write(&output, format!("{sbom:#}\n").as_bytes())?;
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
