//! The guest: Debian's cloud kernel and an archive of tools, libraries, test programs and one
//! script.
//!
//! Nothing is installed: the kernel package is downloaded and unpacked under target/dax, once.

use super::Program;
use super::cpio::Archive;
use crate::shell::{self, Result, as_root, which};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Loaded in this order; everything else the guest needs is built into the kernel.
const MODULES: &[&str] = &[
    "drivers/nvdimm/libnvdimm.ko",
    "drivers/acpi/nfit/nfit.ko",
    "drivers/nvdimm/nd_btt.ko",
    "drivers/nvdimm/nd_pmem.ko",
];

/// A kernel to boot and its modules.
pub(super) struct Kernel {
    pub image: PathBuf,
    modules: PathBuf,
}

impl Kernel {
    /// Finds the kernel in `cache`, or downloads it.
    pub(super) fn get(cache: &Path) -> Result<Kernel> {
        if let Ok(kernel) = Kernel::find(cache) {
            return Ok(kernel);
        }
        fs::create_dir_all(cache).map_err(|error| format!("{}: {error}", cache.display()))?;
        let package = match Kernel::package() {
            Ok(package) => package,
            Err(_) => {
                shell::run(as_root("apt-get").args(["update", "-qq"]))?;
                Kernel::package()?
            }
        };
        println!("dax: downloading {package}");
        let download = || shell::output(Command::new("apt-get").args(["download", "-qq", &package]).current_dir(cache));
        if download().is_err() {
            // the list named a version that is gone
            shell::run(as_root("apt-get").args(["update", "-qq"]))?;
            download()?;
        }
        let archive = only(cache, |name| name.ends_with(".deb"))?;
        shell::run(Command::new("dpkg").arg("-x").arg(&archive).arg(cache))?;
        fs::remove_file(&archive).map_err(|error| format!("{}: {error}", archive.display()))?;
        Kernel::find(cache)
    }

    /// The package that the meta package depends on.
    fn package() -> Result<String> {
        let depends = shell::output(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
        let first = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
        first.map(str::to_string).ok_or_else(|| "apt knows no cloud kernel (linux-image-cloud-amd64)".to_string())
    }

    fn find(cache: &Path) -> Result<Kernel> {
        let image = only(&cache.join("boot"), |name| name.starts_with("vmlinuz-"))?;
        let modules = only(&cache.join("lib/modules"), |_| true)?.join("kernel");
        Ok(Kernel { image, modules })
    }
}

/// The one entry of a folder that fits.
fn only(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let fit = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(&fits);
    paths.find(fit).ok_or_else(|| format!("{}: lacks what was expected", folder.display()))
}

/// Writes the archive: programs appear as /test/NAME, and their crates' testdata under /crate/NAME.
pub(super) fn pack(target: &Path, kernel: &Kernel, programs: &[Program], script: &str) -> Result {
    let out = fs::File::create(target).map_err(|error| format!("{}: {error}", target.display()))?;
    let mut guest = Guest { archive: Archive::new(std::io::BufWriter::new(out)), libraries: BTreeSet::new() };
    let failed = |error: std::io::Error| format!("{}: {error}", target.display());
    for folder in ["/proc", "/sys", "/dev", "/mnt", "/tmp", "/etc"] {
        guest.archive.folder(folder).map_err(failed)?;
    }
    guest.archive.file("/init", script.as_bytes()).map_err(failed)?;
    guest.archive.link("/etc/mtab", "/proc/mounts").map_err(failed)?;
    guest.program("/bin/busybox", &which("busybox")?)?;
    guest.program("/bin/ndctl", &which("ndctl")?)?;
    guest.program("/bin/mkfs.ext4", &which("mkfs.ext4")?)?;
    for (number, module) in MODULES.iter().enumerate() {
        let name = Path::new(module).file_name().unwrap_or_default().to_string_lossy();
        guest.copy(&format!("/modules/{number}-{name}"), &kernel.modules.join(module))?;
    }
    for Program { name, path, folder, tests } in programs {
        let stripped = target.with_extension("stripped");
        shell::run(Command::new("strip").arg("-o").arg(&stripped).arg(path))?;
        guest.libraries_of(path)?;
        guest.copy(&format!("/test/{name}"), &stripped)?;
        guest.archive.file(&format!("/list/{name}"), tests.join("\n").as_bytes()).map_err(failed)?;
        guest.archive.folder(&format!("/crate/{name}")).map_err(failed)?;
        guest.tree(&format!("/crate/{name}/testdata"), &folder.join("testdata"))?;
        let _ = fs::remove_file(&stripped);
    }
    guest.archive.finish().map_err(failed)
}

struct Guest {
    archive: Archive<std::io::BufWriter<fs::File>>,
    libraries: BTreeSet<String>,
}

impl Guest {
    fn copy(&mut self, to: &str, from: &Path) -> Result {
        let body = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.archive.file(to, &body).map_err(|error| format!("{to}: {error}"))
    }

    /// Copies a folder and all below it; nothing if it does not exist.
    fn tree(&mut self, to: &str, from: &Path) -> Result {
        for entry in fs::read_dir(from).into_iter().flatten().flatten() {
            let (path, to) = (entry.path(), format!("{to}/{}", entry.file_name().to_string_lossy()));
            if path.is_dir() { self.tree(&to, &path)? } else { self.copy(&to, &path)? }
        }
        Ok(())
    }

    fn program(&mut self, to: &str, from: &Path) -> Result {
        self.libraries_of(from)?;
        self.copy(to, from)
    }

    /// Copies the shared libraries that the loader would find, under the same paths.
    fn libraries_of(&mut self, program: &Path) -> Result {
        // `ldd` fails on static programs, which need none.
        let Ok(listed) = Command::new("ldd").arg(program).output() else { return Ok(()) };
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let Some(path) = line.split_whitespace().find(|word| word.starts_with('/')) else { continue };
            if self.libraries.insert(path.to_string()) {
                self.copy(path, Path::new(path))?;
            }
        }
        Ok(())
    }
}
