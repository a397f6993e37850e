//! `xtask image` builds a container image of a program, `xtask chart` archives a chart for a registry, `xtask sbom`
//! lists the components of a program, and `xtask provenance` states from what a release was built.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use xtask::archive::read;
use xtask::chart;
use xtask::image::{self, Description};
use xtask::oci::digest;
use xtask::program::Program;
use xtask::provenance::{self, Build};
use xtask::sbom::{self, Purl, Workspace};

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
        /// A component that is not a crate, as a package URL: pkg:deb/debian/glibc@2.36-9; repeatable
        #[arg(long = "linked")]
        linked: Vec<Purl>,
        /// The SBOM's timestamp, in seconds since 1970
        #[arg(long, env = "SOURCE_DATE_EPOCH")]
        created: u64,
        /// The file to write
        #[arg(long)]
        output: PathBuf,
    },
    /// Write a statement about the origin of files and images (in-toto, SLSA provenance)
    Provenance {
        /// The built files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// An artifact in a registry: name=digest; repeatable
        #[arg(long = "artifact", value_parser = pair)]
        artifacts: Vec<(String, String)>,
        /// The repository's address
        #[arg(long)]
        repository: String,
        /// The commit
        #[arg(long)]
        commit: String,
        /// The command that built the files
        #[arg(long)]
        command: String,
        /// A file or program that they were built with: its address=sha256:…; repeatable
        #[arg(long = "dependency", value_parser = pair)]
        dependencies: Vec<(String, String)>,
        /// Who built them, as an address
        #[arg(long)]
        builder: String,
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
        Command::Provenance { files, artifacts, repository, commit, command, dependencies, builder, output } => {
            let files: Result<Vec<_>> = files.iter().map(|path| read(path)).collect();
            let digests = files?.into_iter().map(|(name, bytes)| (name, digest(&bytes)));
            let subjects: BTreeMap<_, _> = digests.chain(artifacts).collect();
            let dependencies = dependencies.into_iter().collect();
            let build = Build { repository, commit, command, dependencies, builder };
            let statement = provenance::statement(&subjects, &build)?;
            write(&output, format!("{statement:#}\n").as_bytes())?;
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
