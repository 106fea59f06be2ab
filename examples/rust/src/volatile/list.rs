//! A list of numbers.

/// The rest of a list.
pub type Link = Option<Box<Node>>;

/// A number and what follows it.
pub struct Node {
    value: i64,
    next: Link,
}

/// The list.
pub struct List(Link);

impl List {
    /// A list without numbers.
    pub const fn empty() -> Self {
        Self(None)
    }

    /// Puts a number in front.
    pub fn push(&mut self, value: i64) {
        let next = self.0.take();
        self.0 = Some(Box::new(Node { value, next }));
    }

    /// Takes the first number away.
    pub fn pop(&mut self) -> Option<i64> {
        let mut node = self.0.take()?;
        self.0 = node.as_mut().next.take();
        Some(node.value)
    }

    /// Puts a number at the end.
    pub fn append(&mut self, value: i64) {
        let mut link = &mut self.0;
        while let Some(node) = link {
            link = &mut node.as_mut().next;
        }
        *link = Some(Box::new(Node { value, next: None }));
    }

    /// Turns the list around.
    pub fn reverse(&mut self) {
        let mut rest = self.0.take();
        while let Some(mut node) = rest {
            rest = std::mem::replace(&mut node.as_mut().next, self.0.take());
            self.0 = Some(node);
        }
    }

    /// Calls `each` with every number.
    pub fn each(&self, mut each: impl FnMut(i64)) {
        let mut link = &self.0;
        while let Some(node) = link {
            each(node.value);
            link = &node.next;
        }
    }
}
