//! Everything that can be exported.
use everbyte_bridge::{Extern, Passed, Returned, export, library};
use everbyte_object::{Journal, MemPool, PCell, PMutex, PRefCell, PSafe, PString, PVec, pool};

pool!(pub P1, pub P2);

#[derive(PSafe, Extern)]
#[bridge(name = "thing")]
#[repr(C)]
pub struct All<P: MemPool> {
    number: PCell<u64, P>,
    text: PRefCell<PString<P>, P>,
    shared: PMutex<u32, P>,
}

#[export]
impl<P> All<P>
where
    P: MemPool,
{
    pub fn new(j: &Journal<P>) -> Self {
        All { number: PCell::new(0), text: PRefCell::new(PString::from("a", j)), shared: PMutex::new(0) }
    }

    pub fn numbers(&self, _a: u8, _b: i16, _c: u32, _d: i64, _e: usize, _f: f32, _g: f64, _h: bool) -> f64 {
        self.helper()
    }

    pub fn text(&self, add: &str, j: &Journal<P>) -> String {
        self.text.borrow_mut(j).push_str(add, j);
        self.text.borrow().to_string()
    }

    pub fn lock(&self, j: &Journal<P>, by: u32) -> Result<u32, String> {
        let mut shared = self.shared.lock(j);
        *shared = shared.checked_add(by).ok_or("too many")?;
        Ok(*shared)
    }

    pub fn maybe(&self) -> Option<u32> {
        None
    }

    fn helper(&self) -> f64 {
        0.0
    }
}

#[derive(PSafe, Extern)]
#[repr(C)]
pub struct Series<T: PSafe<P>, const N: usize, P: MemPool> {
    items: PRefCell<PVec<[T; N], P>, P>,
}

#[export(instances)]
impl<T: PSafe<P> + Passed + Returned + Copy, const N: usize, P: MemPool> Series<T, N, P> {
    pub fn new(_: &Journal<P>) -> Self {
        Series { items: PRefCell::new(PVec::new()) }
    }

    pub fn push(&self, value: T, j: &Journal<P>) -> T {
        self.items.borrow_mut(j).push([value; N], j);
        value
    }
}

library! {
    name everything;
    pool P1 { All, Series<u64, 2> as pairs, Series<f64, 3> as triples }
    pool P2 { All }
}
