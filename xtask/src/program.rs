//! A program that needs no other file.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::elf::{ELFOSABI_GNU, ELFOSABI_SYSV, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Architecture, Object as _};

use crate::archive;

/// A static program for Linux.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of its file, also in the image.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// Its architecture, as images name it: `amd64` or `arm64`.
    pub architecture: &'static str,
}

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// If the file cannot be read, is not a program for 64-bit Linux, or needs a dynamic loader.
    pub fn read(path: &Path) -> Result<Self> {
        let (name, bytes) = archive::read(path)?;
        let architecture =
            architecture(&bytes).with_context(|| format!("{} cannot be the program of an image", path.display()))?;
        Ok(Self { name, bytes, architecture })
    }
}

/// Returns the architecture of a static program.
fn architecture(bytes: &[u8]) -> Result<&'static str> {
    let file: ElfFile64 = ElfFile64::parse(bytes).context("it is not a 64-bit ELF file")?;
    let header = file.elf_header();
    if ![ELFOSABI_SYSV, ELFOSABI_GNU].contains(&header.e_ident().os_abi) {
        bail!("it is not for Linux");
    }
    let endian = file.endian();
    if file.elf_program_headers().iter().any(|part| part.p_type(endian) == PT_INTERP) {
        bail!("it needs a dynamic loader, which the image does not contain: link it statically");
    }
    match file.architecture() {
        Architecture::X86_64 => Ok("amd64"),
        Architecture::Aarch64 => Ok("arm64"),
        other => bail!("it is for {other:?}, not for X86_64 or Aarch64"),
    }
}
