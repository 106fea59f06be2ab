//! One run of the emulated machine: QEMU with an NVDIMM over an image file, its console read line
//! by line.
//!
//! Killing it is a machine's death without power loss: the image keeps every store that the guest's
//! CPU made, flushed or not. So it tests the death of process and kernel on real `MAP_SYNC`
//! mappings; missing flushes are the explorer's.
//!
//! Threads: one reads the console and sends its lines; everything else happens on the caller's.

use super::guest::Kernel;
use crate::shell::Result;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

pub(super) struct Machine {
    child: Child,
    lines: Receiver<String>,
    /// Everything the console said, for the report of a failure.
    console: String,
    patience: Duration,
}

impl Machine {
    /// Starts the machine on an NVDIMM image. `task` reaches the guest's script on the kernel's
    /// command line. It may be silent for as long as `patience`.
    pub(super) fn boot(
        kernel: &Kernel,
        archive: &Path,
        image: &Path,
        task: &str,
        patience: Duration,
    ) -> Result<Machine> {
        let size = std::fs::metadata(image).map_err(|error| format!("{}: {error}", image.display()))?.len();
        let nvdimm = format!("memory-backend-file,id=mem1,share=on,mem-path={},size={size},align=2M", image.display());
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35,nvdimm=on", "-smp", "2"]);
        command.args(["-m", "3G,slots=2,maxmem=6G", "-object", &nvdimm, "-device", "nvdimm,id=nv1,memdev=mem1"]);
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(archive);
        command.args(["-append", &format!("console=ttyS0 panic=-1 quiet everbyte={task}")]);
        command.args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio", "-net", "none"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|error| format!("cannot start qemu-system-x86_64: {error}"))?;
        let output = child.stdout.take().expect("piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if send.send(plain(&line)).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Ok(Machine { child, lines, console: String::new(), patience })
    }

    /// The next line of the console; `None` when the machine is off.
    ///
    /// # Errors
    /// It has been silent for too long.
    pub(super) fn line(&mut self) -> Result<Option<String>> {
        match self.lines.recv_timeout(self.patience) {
            Ok(line) => {
                let _ = writeln!(self.console, "{line}");
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(self.report("the machine has been silent for too long")),
        }
    }

    /// Reads until a line starts with `start`, and returns the rest of it.
    ///
    /// # Errors
    /// The machine turned itself off, said `FAILED`, or took too long; the report holds the
    /// console.
    pub(super) fn expect(&mut self, start: &str) -> Result<String> {
        while let Some(line) = self.line()? {
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.trim().to_string());
            }
            if line.starts_with("FAILED") {
                return Err(self.report(&line));
            }
        }
        Err(self.report(&format!("the machine went off before it said `{start}`")))
    }

    /// Kills the machine as a power switch would, and returns the lines that had reached the
    /// console by then.
    pub(super) fn kill(&mut self) -> Vec<String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.lines.iter().collect()
    }

    /// A failure, with everything the console said.
    pub(super) fn report(&self, what: &str) -> String {
        format!("{what}\n--- console\n{}--- end of console", self.console)
    }
}

/// A console line without the escape sequences that firmware prints.
fn plain(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut plain = String::new();
    let mut chars = text.trim_end().chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                // A reset has no parameters; like clearing the screen it makes what stood before it
                // history.
                let end = chars.by_ref().find(char::is_ascii_alphabetic);
                if matches!(end, Some('c' | 'J')) {
                    plain.clear();
                }
            }
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn escape_sequences_are_dropped() {
        assert_eq!(super::plain(b"\x1bc\x1b[?7l\x1b[2JREADY 6.1\r\n"), "READY 6.1");
        assert_eq!(super::plain(b"Booting from ROM..\x1bc\x1b[?7l\x1b[2JREADY 6.1\r\n"), "READY 6.1");
    }
}
