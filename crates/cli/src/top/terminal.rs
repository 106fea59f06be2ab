//! The terminal of `everbyte top`: a screen of its own, keys without echo, and all as it was at the
//! end.

use crate::failure::Failure;
use crate::output::Output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{Read, Write as _, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The screen beside the usual one, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// See the head of this file.
pub(super) struct Terminal {
    stop: Arc<AtomicBool>,
    /// Whether it has the screen of its own.
    screen: bool,
    /// The modes of the keyboard as they were; `None` where there is no keyboard.
    saved: Option<Termios>,
}

impl Terminal {
    /// Reads keys, and takes a `screen` of its own or prints below what is there.
    pub(super) fn enter(stop: Arc<AtomicBool>, screen: bool) -> Terminal {
        let saved = tcgetattr(stdin()).ok();
        if let Some(modes) = &saved {
            let mut quiet = modes.clone();
            quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            let _ = tcsetattr(stdin(), OptionalActions::Now, &quiet); // without it `q` needs Enter
        }
        let terminal = Terminal { stop, screen, saved };
        terminal.tell(ENTER);
        terminal
    }

    fn tell(&self, text: &str) {
        if self.screen {
            let mut out = stdout();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()))
    }

    /// Replaces the screen's lines.
    pub(super) fn show(&self, output: &Output, lines: &[String]) -> Result<(), Failure> {
        // Each line erases what was behind it, the last one what was below.
        let text =
            format!("\x1b[H{}\x1b[J", lines.iter().map(|line| format!("{line}\x1b[K")).collect::<Vec<_>>().join("\n"));
        output.bytes(text.as_bytes())?;
        output.finish()
    }

    /// Waits until then; `true` if it is to end: `q`, Ctrl-C, or a signal.
    pub(super) fn wait(&mut self, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.stop.load(Ordering::Acquire) || self.read_keys(left) {
                return true;
            }
            if until <= Instant::now() {
                return false;
            }
        }
    }

    /// Waits for keys, for so long at most; `true` if one of them ends.
    fn read_keys(&mut self, time: Duration) -> bool {
        // A signal that comes before the wait is seen soon.
        let time = time.min(Duration::from_millis(200));
        if self.saved.is_none() {
            std::thread::sleep(time);
            return false;
        }
        let limit = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        let input = stdin();
        let mut waits = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut waits, Some(&limit)) {
            Ok(1..) => {}
            _ => return false,
        }
        let mut keys = [0; 64];
        match input.lock().read(&mut keys) {
            Ok(count @ 1..) => keys[..count].iter().any(|key| b"qQ\x03\x04".contains(key)),
            // The terminal is gone.
            _ => true,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(modes) = &self.saved {
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
        }
        self.tell(LEAVE);
    }
}
