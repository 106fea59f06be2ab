//! Progress of long commands: bars, on terminals only. A command that another process asked for
//! tells that process, which shows it.

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// The things that a progress counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Items,
    Bytes,
}

/// The state of a progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub name: Cow<'static, str>,
    pub form: Form,
    pub done: u64,
    /// The sum, if it is known.
    pub total: Option<u64>,
}

/// The process that asked for the command.
pub(crate) trait Tell {
    /// Tells a progress; false if that process has gone.
    fn tell(&self, told: &Told) -> bool;
}

/// The progress of the command at hand.
pub(crate) struct Progress {
    told: RefCell<Told>,
    to: To,
}

enum To {
    Screen(RefCell<Shown>),
    Process(Rc<dyn Tell>),
}

impl Progress {
    /// Nothing is done yet. `None` shows it here.
    pub(crate) fn new(name: &'static str, form: Form, asked: Option<Rc<dyn Tell>>) -> Progress {
        let told = RefCell::new(Told { name: name.into(), form, done: 0, total: None });
        Progress { told, to: asked.map_or_else(|| To::Screen(RefCell::default()), To::Process) }
    }

    /// Shows that so much is done.
    ///
    /// # Errors
    /// [`Failure::Closed`]: the process that asked has gone, so the command can end.
    pub(crate) fn set(&self, done: u64, total: Option<u64>) -> Result<(), Failure> {
        let mut told = self.told.borrow_mut();
        (told.done, told.total) = (done, total);
        match &self.to {
            To::Screen(shown) => shown.borrow_mut().show(&told),
            To::Process(asked) if !asked.tell(&told) => return Err(Failure::Closed),
            To::Process(_) => (),
        }
        Ok(())
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let To::Screen(shown) = &self.to {
            shown.borrow_mut().hide();
        }
    }
}

/// A bar on the terminal, for the last progress that was told.
#[derive(Default)]
pub(crate) struct Shown(Option<(Told, ProgressBar)>);

impl Shown {
    /// Shows a progress, in a bar of its own if its name is new.
    pub(crate) fn show(&mut self, told: &Told) {
        let is_shown = |(shown, _): &(Told, ProgressBar)| {
            (&shown.name, shown.form, shown.total.is_some()) == (&told.name, told.form, told.total.is_some())
        };
        if !self.0.as_ref().is_some_and(is_shown) {
            self.hide();
            let bar = match (told.form, told.total) {
                (Form::Items, total) => bar("", total),
                (Form::Bytes, None) => counted_bytes(""),
                (Form::Bytes, Some(_)) => bytes(""),
            };
            self.0 = Some((told.clone(), bar.with_message(told.name.clone())));
        }
        let Some((_, bar)) = &self.0 else { return };
        if let Some(total) = told.total {
            bar.set_length(total);
        }
        bar.set_position(told.done);
    }

    /// Takes the bar away.
    pub(crate) fn hide(&mut self) {
        if let Some((_, bar)) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// A bar up to `total`, or a counter if the total is unknown. Hidden if standard error is no
/// terminal.
pub(crate) fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    match total {
        Some(total) => {
            styled(ProgressBar::new(total), "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}", what)
        }
        None => styled(ProgressBar::new_spinner(), "{msg} {human_pos} {per_sec}", what),
    }
}

/// A bar that counts bytes, up to a length that is set later.
pub(crate) fn bytes(what: &'static str) -> ProgressBar {
    styled(ProgressBar::new(0), "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}", what)
}

/// A counter of bytes whose sum is not known.
pub(crate) fn counted_bytes(what: &'static str) -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{msg} {bytes} {bytes_per_sec}", what)
}

fn styled(bar: ProgressBar, form: &str, what: &'static str) -> ProgressBar {
    // The templates are constants of this file, so parsing cannot fail at a user's input.
    bar.with_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what)
}
