//! An engine outside of Everbyte: a register whose one word carries its own check sum.
//!
//! The implementation of `EngineTools` and one call of `Engines::with` are all that `check`, the
//! deep check and `merge` need to treat the register like any other object.

use everbyte::{CustomEngine, EngineError, EngineTools, Engines, Fact, Merge, MergeOptions};
use everbyte_store::{Engine, Error, Finding, FindingKind, Object, ObjectOptions, Store};

const REGISTER: Engine = Engine::Custom(CustomEngine::new(0x1_0001));

/// The sealed word: the value in the low half, its complement in the high half.
fn seal(value: u32) -> u64 {
    u64::from(value) | u64::from(!value) << 32
}

fn create(store: &Store, name: &str, value: u32) -> Result<Object, Error> {
    let options = ObjectOptions { engine: REGISTER, fingerprint: 0, span: Some(64 << 10) };
    store.create_object(name, options, |object| {
        object.set_root(seal(value));
        object.media().fence();
        Ok::<(), Error>(())
    })
}

fn value(object: &Object) -> Option<u32> {
    let word = object.root();
    (seal(word as u32) == word).then_some(word as u32)
}

struct Register;

impl EngineTools for Register {
    fn engine(&self) -> Engine {
        REGISTER
    }

    fn describe(&self, store: &Store, name: &str) -> Result<Vec<Fact>, EngineError> {
        let value = value(&store.object(name)?);
        Ok(value.map(|value| Fact { name: "value", value: value.into() }).into_iter().collect())
    }

    fn recover(&self, _: &Store, _: &str) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new()) // one word: a crash leaves the old or the new one
    }

    fn check(&self, store: &Store, name: &str) -> Vec<Finding> {
        let object = match store.object(name) {
            Ok(object) => object,
            Err(error) => return vec![Finding::unopened("register", store, name, &error)],
        };
        let damage = |at| Finding {
            room: "register",
            kind: FindingKind::Damage,
            at,
            object: Some(name.into()),
            detail: "the halves of the word contradict each other".into(),
        };
        if value(&object).is_some() { Vec::new() } else { vec![damage(object.root_at().get())] }
    }

    fn not_walked(&self) -> String {
        "a register has no blocks".into()
    }

    fn can_copy(&self, _: &Object) -> Result<bool, EngineError> {
        Ok(true)
    }

    fn copy(
        &self,
        source: &Store,
        name: &str,
        target: &Store,
        target_name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), EngineError> {
        let object = source.object(name)?;
        let Some(value) = value(&object) else {
            return Err(EngineError::Unrepairable(self.check(source, name).remove(0)));
        };
        create(target, target_name, value)?;
        progress(8);
        Ok(())
    }
}

/// Checks a store with a register, copies the register, and finds damage in it.
pub(crate) fn main() -> Result<(), everbyte::Error> {
    let directory = tempfile::tempdir().expect("a place for two stores");
    let [store, target] = ["a.everbyte", "b.everbyte"]
        .map(|name| Store::create(&directory.path().join(name), &everbyte::CreateOptions::default()));
    let (store, target) = (store?, target?);
    let engines = Engines::standard().with(Register);
    let register = create(&store, "register", 7)?;
    assert_eq!(engines.check(&store, |_| ()), []);

    let options = MergeOptions { engines: engines.clone(), ..MergeOptions::default() };
    Merge::plan(&target, std::slice::from_ref(&store), &options)?.run()?;
    assert_eq!(value(&target.object("register")?), Some(7));

    register.set_root(8); // not sealed
    let findings = engines.check(&store, |_| ());
    assert!(findings[0].is_damage(), "{findings:?}");
    println!("{}", findings[0]);
    Ok(())
}
