//! `xtask image` builds a container image of a program, `xtask chart` archives a chart for a registry, and `xtask sbom`
//! lists the components of a program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use xtask::chart;
use xtask::image::{self, Description};
use xtask::program::Program;
use xtask::sbom::{self, Workspace};

/// Tasks of the build.
#[derive(Debug, Parser)]
enum Command {
    /// Write a container image as one file, an OCI layout that `docker load` reads too; print its digest
    Image {
        /// The program; repeatable, once for each architecture
        #[arg(long = "program", required = true)]
        programs: Vec<PathBuf>,
        /// A file with license texts, for the folder /licenses; repeatable
        #[arg(long = "license")]
        licenses: Vec<PathBuf>,
        /// The image's name: registry/repository:tag
        #[arg(long)]
        reference: String,
        /// A default argument of the program; repeatable
        #[arg(long = "argument")]
        arguments: Vec<String>,
        /// A label: key=value; repeatable
        #[arg(long = "label", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// The timestamp of everything in the image, in seconds since 1970
        #[arg(long, env = "SOURCE_DATE_EPOCH")]
        created: u64,
        /// The file to write
        #[arg(long)]
        output: PathBuf,
    },
    /// Write a packaged Helm chart as one file, an OCI layout; print its digest
    Chart {
        /// The package, as `helm package` writes it
        #[arg(long)]
        package: PathBuf,
        /// The repository that contains the chart: registry/folder
        #[arg(long)]
        repository: String,
        /// The timestamp of the artifact, in seconds since 1970
        #[arg(long, env = "SOURCE_DATE_EPOCH")]
        created: u64,
        /// The file to write
        #[arg(long)]
        output: PathBuf,
    },
    /// Write a software bill of materials (CycloneDX) of the crates in a program
    Sbom {
        /// The program's package
        #[arg(long)]
        package: String,
        /// The program's target, such as x86_64-unknown-linux-gnu
        #[arg(long)]
        target: String,
        /// A component that is not a crate: name=version; repeatable
        #[arg(long = "linked", value_parser = pair)]
        linked: Vec<(String, String)>,
        /// The SBOM's timestamp, in seconds since 1970
        #[arg(long, env = "SOURCE_DATE_EPOCH")]
        created: u64,
        /// The file to write
        #[arg(long)]
        output: PathBuf,
    },
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Image { programs, licenses, reference, arguments, labels, created, output } => {
            let labels = labels.into_iter().collect();
            let licenses: Result<BTreeMap<_, _>> = licenses.iter().map(|path| read(path)).collect();
            let description = Description { reference, arguments, labels, created, licenses: licenses? };
            let programs: Result<Vec<_>> = programs.iter().map(|path| Program::read(path)).collect();
            let archive = image::build(&programs?, &description)?;
            write(&output, &archive.bytes)?;
            println!("{}", archive.digest);
        }
        Command::Chart { package, repository, created, output } => {
            let (_, bytes) = read(&package)?;
            let archive = chart::build(bytes, &repository, created)?;
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

/// Reads a file. Returns its name and content.
fn read(path: &Path) -> Result<(String, Vec<u8>)> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{} is not the path of a file", path.display()))?;
    Ok((name.to_owned(), bytes))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
