//! A program that needs no other file to run.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::elf::{ELFOSABI_GNU, ELFOSABI_SYSV, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Architecture, Object as _};

/// A static program for Linux.
#[derive(Clone, Debug)]
pub struct Program {
    /// What its file is called, and what it is called in the image.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// What it runs on, as images name it: `amd64` or `arm64`.
    pub architecture: &'static str,
}

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// Where it cannot be read, is not for a 64-bit Linux, or needs a dynamic loader.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} names no file", path.display()))?.to_owned();
        let architecture =
            architecture(&bytes).with_context(|| format!("{} is no program for an image", path.display()))?;
        Ok(Self { name, bytes, architecture })
    }
}

/// What a static program runs on.
fn architecture(bytes: &[u8]) -> Result<&'static str> {
    let file: ElfFile64 = ElfFile64::parse(bytes).context("it is no 64-bit ELF file")?;
    let header = file.elf_header();
    if ![ELFOSABI_SYSV, ELFOSABI_GNU].contains(&header.e_ident().os_abi) {
        bail!("it is not for Linux");
    }
    let endian = file.endian();
    if file.elf_program_headers().iter().any(|part| part.p_type(endian) == PT_INTERP) {
        bail!("it needs a dynamic loader, which the image has not: link it statically");
    }
    match file.architecture() {
        Architecture::X86_64 => Ok("amd64"),
        Architecture::Aarch64 => Ok("arm64"),
        other => bail!("it is for {other:?}, and not for X86_64 or Aarch64"),
    }
}
