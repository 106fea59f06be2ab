//! Profiles of writes: a workload of the ordered store on recorded media, its stores by address and
//! over time, as the paper of the versioned tree drew them (Venkataraman, figures 6.1 to 6.4).
//!
//! Time is counted in operations. An address is an offset in the store. Rows of the map are runs of
//! equally many pages that were written, columns are runs of operations.

use everbyte_kv::Kv;
use everbyte_sim::{Image, Write, each_write};
use everbyte_store::{CLUSTER, FormatOptions, Store};
use everbyte_workload::Random;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Rows of the map.
const ROWS: usize = 24;
/// From no write to the most.
const SHADES: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];

/// The order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeatWorkload {
    /// New keys in random order.
    Random,
    /// New keys in ascending order.
    Ascending,
    /// Random keys of a store that has them all.
    Overwrite,
}

/// The profile to be made.
#[derive(Clone, Copy, Debug)]
pub struct HeatSettings {
    /// The order of keys.
    pub workload: HeatWorkload,
    /// Puts, each settled, of 24-byte keys and 100-byte values.
    pub operations: u64,
    /// Columns of the map.
    pub columns: u64,
    /// Of the keys.
    pub seed: u64,
}

/// A run of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeatColumn {
    /// Operations.
    pub operations: u64,
    /// Bytes stored.
    pub bytes: u64,
    /// Lines flushed.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
}

/// The writes of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// The order of keys.
    pub workload: HeatWorkload,
    /// Over time.
    pub columns: Vec<HeatColumn>,
    /// Stores to each page of 4 KiB that was written, by its offset in the store.
    pub pages: Vec<(u64, u64)>,
    /// The map: runs of equally many of those pages, the lowest addresses first.
    pub rows: Vec<HeatRow>,
}

/// A row of the map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeatRow {
    /// Offset of its first page.
    pub at: u64,
    /// Stores by columns.
    pub stores: Vec<u64>,
}

fn key(number: u64) -> [u8; 24] {
    let mut key = *b"user00000000000000000000";
    key[4..].copy_from_slice(format!("{number:020}").as_bytes());
    key
}

/// Runs the workload.
///
/// # Errors
/// No operation or column is asked for, or more columns than operations.
///
/// # Panics
/// If the store has no room, which a bug would cause.
pub fn heat(settings: &HeatSettings) -> Result<Heat, String> {
    let HeatSettings { workload, operations, columns, seed } = *settings;
    if columns == 0 || operations < columns {
        return Err("a profile has at least one operation for each column, and one column".into());
    }
    let numbers = |step: u64| step * operations / columns..(step + 1) * operations / columns;
    let mut random = Random::new(seed);
    let order: Vec<u64> = (0..operations)
        .map(|number| match workload {
            HeatWorkload::Random => Random::new(seed ^ number).next(),
            HeatWorkload::Ascending => number,
            HeatWorkload::Overwrite => random.below(operations),
        })
        .collect();
    let image = Image::zeroed(CLUSTER).with_max((operations << 13).max(16 << 20).next_power_of_two());
    let prepare = |media| {
        let store = Store::format(media, &FormatOptions { log_len: 0, identity: Some([7; 16]) }).expect("a new store");
        let kv = Kv::create(&store, "kv").expect("room");
        if workload == HeatWorkload::Overwrite {
            (0..operations).for_each(|number| kv.put(&key(number), &[0; 100]).expect("room"));
        }
        kv
    };
    let mut counts = vec![HeatColumn::default(); columns as usize];
    // By page, and by column.
    let mut pages: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    let step = |kv: &Kv, column| {
        numbers(column).for_each(|turn| kv.put(&key(order[turn as usize]), &[turn as u8; 100]).expect("room"));
    };
    each_write(&image, prepare, columns, step, |column, write| {
        let count = &mut counts[column as usize];
        match write {
            Write::Store { at, len } => {
                count.bytes += len;
                for page in at / PAGE..(at + len).div_ceil(PAGE) {
                    *pages.entry(page).or_default().entry(column).or_default() += 1;
                }
            }
            Write::Flush { lines } => count.lines += lines,
            Write::Fence => count.fences += 1,
        }
    });
    (0..).zip(&mut counts).for_each(|(column, count)| count.operations = numbers(column).count() as u64);
    let of_row = pages.len().div_ceil(ROWS);
    let mut rows = Vec::new();
    for (rank, (page, stores)) in pages.iter().enumerate() {
        if rank % of_row == 0 {
            rows.push(HeatRow { at: page * PAGE, stores: vec![0; columns as usize] });
        }
        let row = rows.last_mut().expect("just pushed");
        stores.iter().for_each(|(column, stores)| row.stores[*column as usize] += stores);
    }
    let pages = pages.into_iter().map(|(page, stores)| (page * PAGE, stores.into_values().sum())).collect();
    Ok(Heat { workload, columns: counts, pages, rows })
}

impl Default for HeatSettings {
    fn default() -> HeatSettings {
        HeatSettings { workload: HeatWorkload::Random, operations: 10_000, columns: 64, seed: 1 }
    }
}

impl Heat {
    /// Stores to the page with the median, and to the one with the most.
    pub fn page_stores(&self) -> (u64, u64) {
        let mut stores: Vec<u64> = self.pages.iter().map(|&(_, stores)| stores).collect();
        stores.sort_unstable();
        (stores.get(stores.len() / 2).copied().unwrap_or(0), stores.last().copied().unwrap_or(0))
    }

    /// The map as text: a line for each row, the lowest addresses first, and below it the bytes
    /// written over time. Darker is more, on a logarithmic scale.
    pub fn text(&self) -> String {
        let operations: u64 = self.columns.iter().map(|column| column.operations).sum();
        let most = self.rows.iter().flat_map(|row| &row.stores).copied().max().unwrap_or(0);
        let mut text = String::new();
        let each = self.columns[0].operations;
        writeln!(text, "stores by address (down) and time (across, {each} puts a column), most {most}").expect("text");
        for row in &self.rows {
            let line: String = row.stores.iter().map(|&stores| shade(stores, most)).collect();
            writeln!(text, "{:>10} |{line}|", format!("{:#x}", row.at)).expect("text");
        }
        let per_put = |column: &HeatColumn| column.bytes / column.operations;
        let top = self.columns.iter().map(per_put).max().unwrap_or(0);
        let line: String = self.columns.iter().map(|column| shade(per_put(column), top)).collect();
        writeln!(text, "{:>10} |{line}| bytes a put, most {top}", "").expect("text");
        let (median, most) = self.page_stores();
        let sum = |of: fn(&HeatColumn) -> u64| self.columns.iter().map(of).sum::<u64>() as f64 / operations as f64;
        write!(
            text,
            "{} pages written, {median} stores to the median page, {most} to the most; a put: {:.0} bytes, {:.1} lines, {:.2} fences",
            self.pages.len(),
            sum(|column| column.bytes),
            sum(|column| column.lines),
            sum(|column| column.fences),
        )
        .expect("text");
        text
    }

    /// The map as a drawing: stores by address and time, and the bytes of a put over time below.
    pub fn svg(&self) -> String {
        const CELL: u64 = 10;
        let (width, height) = (self.columns.len() as u64 * CELL, self.rows.len() as u64 * CELL);
        let most = self.rows.iter().flat_map(|row| &row.stores).copied().max().unwrap_or(0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <text x=\"90\" y=\"14\">stores by address (down) and time in puts (across)</text>\n",
            width + 100,
            height + 120,
        );
        for (place, row) in (0_u64..).zip(&self.rows) {
            let y = 20 + place * CELL;
            writeln!(svg, "<text x=\"4\" y=\"{}\">{:#x}</text>", y + 9, row.at).expect("text");
            for (column, &stores) in (0_u64..).zip(&row.stores).filter(|(_, stores)| **stores > 0) {
                let (x, part) = (90 + column * CELL, level(stores, most));
                writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"#d55e00\" fill-opacity=\"{part:.2}\"/>")
                    .expect("text");
            }
        }
        let per_put = |column: &HeatColumn| column.bytes / column.operations;
        let top = self.columns.iter().map(per_put).max().unwrap_or(0).max(1);
        let base = height + 110;
        writeln!(
            svg,
            "<text x=\"4\" y=\"{}\">bytes a put</text><text x=\"4\" y=\"{}\">most {top}</text>",
            height + 50,
            height + 64
        )
        .expect("text");
        for (column, bytes) in (0_u64..).zip(self.columns.iter().map(per_put)) {
            let (x, bar) = (90 + column * CELL, bytes * 80 / top);
            writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{}\" width=\"{}\" height=\"{bar}\" fill=\"#0072b2\"/>",
                base - bar,
                CELL - 1
            )
            .expect("text");
        }
        svg + "</svg>\n"
    }
}

/// From 0 to 1, on a logarithmic scale.
fn level(value: u64, most: u64) -> f64 {
    if value == 0 { 0.0 } else { ((value + 1) as f64).ln() / ((most + 1) as f64).ln() }
}

fn shade(value: u64, most: u64) -> char {
    SHADES[(level(value, most) * (SHADES.len() - 1) as f64).ceil() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(workload: HeatWorkload) -> Heat {
        heat(&HeatSettings { workload, operations: 800, columns: 16, seed: 3 }).unwrap()
    }

    #[test]
    fn all_stores_are_counted_by_address_and_by_time() {
        let heat = of(HeatWorkload::Random);
        let by_page: u64 = heat.pages.iter().map(|page| page.1).sum();
        assert_eq!(heat.rows.iter().flat_map(|row| &row.stores).sum::<u64>(), by_page);
        assert_eq!(heat.columns.iter().map(|column| column.operations).sum::<u64>(), 800);
        assert!(
            heat.columns.iter().all(|column| column.fences >= 100 && column.bytes > 50 * 124),
            "{:?}",
            heat.columns
        );
        assert!(heat.text().lines().count() == heat.rows.len() + 3);
        assert!(heat.svg().ends_with("</svg>\n"));
    }

    /// Ascending keys write to ever higher addresses, random overwrites everywhere.
    #[test]
    fn the_order_of_keys_shows() {
        let written = |heat: &Heat, column: usize| heat.rows.iter().filter(|row| row.stores[column] > 0).count();
        let (ascending, overwrite) = (of(HeatWorkload::Ascending), of(HeatWorkload::Overwrite));
        assert!(written(&ascending, 8) < written(&overwrite, 8));
        assert!(heat(&HeatSettings { operations: 3, columns: 4, ..HeatSettings::default() }).is_err());
    }

    #[test]
    fn shades_rise() {
        assert_eq!((shade(0, 9), shade(9, 9), shade(0, 0)), (' ', '@', ' '));
        assert!(level(1, 100) > 0.0 && level(10, 100) < level(11, 100));
    }
}
