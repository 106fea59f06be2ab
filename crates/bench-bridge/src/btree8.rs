//! A B+tree: values in leaves, full nodes split on the way down, leaves may become empty. Key `i`
//! of an inner node is the least that may lie in child `i + 1`.

use everbyte_object::{Journal, MemPool, PRefCell, PSafe, Pbox};

const WAYS: usize = 8;

/// The root node, or none.
pub type Tree<P> = PRefCell<Option<Pbox<Node<P>, P>>, P>;
type Node<P> = PRefCell<Data<P>, P>;

/// The contents of a node.
#[derive(PSafe)]
#[repr(C)]
pub struct Data<P: MemPool> {
    count: u64,
    is_leaf: bool,
    keys: [u64; WAYS - 1],
    values: [u64; WAYS - 1],
    children: [Option<Pbox<Node<P>, P>>; WAYS],
}

impl<P: MemPool> Data<P> {
    fn new(is_leaf: bool) -> Data<P> {
        Data { count: 0, is_leaf, keys: [0; WAYS - 1], values: [0; WAYS - 1], children: [const { None }; WAYS] }
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        self.keys[..self.count as usize].iter().take_while(|here| key >= **here).count()
    }

    fn child(&self, place: usize) -> &Node<P> {
        self.children[place].as_ref().expect("an inner node has a child more than keys")
    }

    /// Splits child `place`, which is full; this node is not.
    fn split(&mut self, place: usize, j: &Journal<P>) {
        let (right, between) = {
            let left = &mut *self.child(place).borrow_mut(j);
            let from = if left.is_leaf { WAYS / 2 - 1 } else { WAYS / 2 };
            let mut right = Data::new(left.is_leaf);
            let count = WAYS - 1 - from;
            right.count = count as u64;
            right.keys[..count].copy_from_slice(&left.keys[from..]);
            if left.is_leaf {
                right.values[..count].copy_from_slice(&left.values[from..]);
            } else {
                right.children[..=count].swap_with_slice(&mut left.children[from..]);
            }
            left.count = WAYS as u64 / 2 - 1;
            (right, left.keys[WAYS / 2 - 1])
        };
        let count = self.count as usize;
        self.keys.copy_within(place..count, place + 1);
        self.keys[place] = between;
        self.children[place + 1..count + 2].rotate_right(1);
        self.children[place + 1] = Some(Pbox::new(PRefCell::new(right), j));
        self.count += 1;
    }
}

/// The value of `key`, or 0.
pub fn get<P: MemPool>(tree: &Tree<P>, key: u64) -> u64 {
    fn find<P: MemPool>(node: &Node<P>, key: u64) -> u64 {
        let data = node.borrow();
        let place = data.place(key);
        match data.is_leaf {
            false => find(data.child(place), key),
            true if place > 0 && data.keys[place - 1] == key => data.values[place - 1],
            true => 0,
        }
    }
    tree.borrow().as_ref().map_or(0, |node| find(node, key))
}

/// Puts a value; 1 if the key is new.
pub fn put<P: MemPool>(tree: &Tree<P>, key: u64, value: u64, j: &Journal<P>) -> u64 {
    fn put_in<P: MemPool>(node: &Node<P>, key: u64, value: u64, j: &Journal<P>) -> u64 {
        let mut data = node.borrow_mut(j);
        let mut place = data.place(key);
        if !data.is_leaf {
            if data.child(place).borrow().count as usize == WAYS - 1 {
                data.split(place, j);
                place += usize::from(key >= data.keys[place]);
            }
            return put_in(data.child(place), key, value, j);
        }
        let data = &mut *data;
        if place > 0 && data.keys[place - 1] == key {
            data.values[place - 1] = value;
            return 0;
        }
        let count = data.count as usize;
        data.keys.copy_within(place..count, place + 1);
        data.values.copy_within(place..count, place + 1);
        (data.keys[place], data.values[place]) = (key, value);
        data.count += 1;
        1
    }
    let is_full = tree.borrow().as_ref().is_none_or(|node| node.borrow().count as usize == WAYS - 1);
    if is_full {
        let mut tree = tree.borrow_mut(j);
        let old = tree.take();
        let mut top = Data::new(old.is_none());
        if old.is_some() {
            top.children[0] = old;
            top.split(0, j);
        }
        *tree = Some(Pbox::new(PRefCell::new(top), j));
    }
    put_in(tree.borrow().as_ref().expect("made by now"), key, value, j)
}

/// Removes a key; its value, or 0.
pub fn remove<P: MemPool>(tree: &Tree<P>, key: u64, j: &Journal<P>) -> u64 {
    fn remove_from<P: MemPool>(node: &Node<P>, key: u64, j: &Journal<P>) -> u64 {
        let mut data = node.borrow_mut(j);
        let place = data.place(key);
        if !data.is_leaf {
            return remove_from(data.child(place), key, j);
        }
        if place == 0 || data.keys[place - 1] != key {
            return 0;
        }
        let data = &mut *data;
        let (value, count) = (data.values[place - 1], data.count as usize);
        data.keys.copy_within(place..count, place - 1);
        data.values.copy_within(place..count, place - 1);
        data.count -= 1;
        value
    }
    tree.borrow().as_ref().map_or(0, |node| remove_from(node, key, j))
}
