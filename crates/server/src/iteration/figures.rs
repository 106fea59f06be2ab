//! The figures that a scrape asks for (`exporter`): numbers of the event loop, copied between two
//! iterations' commands. Keys are counted as of a settled version, as for INFO.

use super::Iterations;
use crate::exporter::{DatabaseFigures, Figures};
use crate::keyspace::{DATABASES, Keyspace};

impl Iterations {
    /// Answers the question for figures, if there is one. Costs one load where there is none.
    pub(super) fn tell_figures(&mut self, keys: &mut Keyspace<'_>) {
        let Some(number) = self.desk.as_ref().and_then(|desk| desk.asked()) else { return };
        self.call_home();
        let databases = databases(keys);
        // An exchange of databases is on its way, and was seen: a later iteration answers (ITER-1).
        if keys.unsettled() {
            return;
        }
        let figures = Figures::gather(&self.shared, &self.clients, self.pending.len(), databases);
        if let Some(desk) = &mut self.desk {
            desk.answer(number, figures);
        }
    }
}

/// The keys of databases that have some. One that cannot be counted is left out.
fn databases(keys: &mut Keyspace<'_>) -> Vec<DatabaseFigures> {
    keys.track(false);
    keys.begin_command(false);
    let here = keys.database();
    let mut found = Vec::new();
    for database in 0..DATABASES as u8 {
        keys.select(database);
        if let (Ok(count), Ok(deadlines)) = (keys.len(), keys.deadlines())
            && (count > 0 || database == 0)
        {
            found.push(DatabaseFigures { database, keys: count, deadlines });
        }
    }
    keys.select(here);
    keys.end_command(false);
    found
}
