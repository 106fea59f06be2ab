//! Programs that compile: every shape of a type, renamed, generic, nested, as keys and values.
use everbyte_kv::{Kv, Result, Typed};

#[derive(Typed)]
pub struct Unit;

#[derive(Typed)]
pub struct Pair(u32, Option<String>);

#[derive(Typed)]
#[typed(name = "Old")]
pub struct Named<T> {
    #[typed(name = "before")]
    pub after: Vec<T>,
    pub r#type: [u8; 4],
}

#[derive(Typed)]
pub enum Shape {
    Point,
    Circle(f64),
    Box { width: i32, height: i32 },
}

pub fn tables(kv: &Kv) -> Result<()> {
    let shapes = kv.open_or_create_typed::<(String, i64), Named<Shape>>("shapes")?;
    for entry in shapes.prefix(&("a".to_string(),))? {
        let ((_, _), _) = entry?;
    }
    kv.open_or_create_typed::<Pair, Unit>("pairs")?.range(..)?.count();
    kv.open_or_create_typed::<Named<u8>, ()>("named").map(drop)
}
