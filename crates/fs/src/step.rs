//! Points inside of calls at which a unit test runs code of its own, as another thread may at that
//! moment. They are nothing outside of unit tests.

/// Passes a point.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn pass(_point: &'static str) {}

#[cfg(test)]
pub(crate) use hooks::{pass, with};

#[cfg(test)]
mod hooks {
    use std::cell::RefCell;

    type Hook = Box<dyn FnMut(&'static str)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Passes a point; the hook itself passes points without a call of it.
    pub(crate) fn pass(point: &'static str) {
        let taken = HOOK.with(|hook| hook.borrow_mut().take());
        if let Some(mut taken) = taken {
            taken(point);
            HOOK.with(|hook| *hook.borrow_mut() = Some(taken));
        }
    }

    /// Runs `body`; each point that this thread passes meanwhile is given to `hook`.
    pub(crate) fn with<T>(hook: impl FnMut(&'static str) + 'static, body: impl FnOnce() -> T) -> T {
        HOOK.with(|place| *place.borrow_mut() = Some(Box::new(hook)));
        let done = body();
        HOOK.with(|place| place.borrow_mut().take());
        done
    }
}
