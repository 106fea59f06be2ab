//! SLOWLOG and LATENCY: the time that commands take (`slowlog.rs` of the crate).

use super::{Call, CommandTable, Fail, Outcome, describe};
use crate::resp::number::parse_integer;
use crate::slowlog::Event;
use crate::times::{RANGES, Times, range_end};

/// `SLOWLOG GET [count]`
pub(super) fn get(call: &mut Call<'_, '_>) -> Outcome {
    const COUNT: Fail = Fail::text("ERR count should be greater than or equal to -1");
    if call.args.len() > 3 {
        let parts: [&[u8]; 3] =
            [b"ERR unknown subcommand or wrong number of arguments for '", call.args.get(1), b"'. Try SLOWLOG HELP."];
        return Err(Fail::made(parts.concat()));
    }
    let count = match call.args.from(2).next() {
        None => 10,
        Some(text) => match parse_integer(text).ok_or(COUNT)? {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| COUNT)?,
        },
    };
    let entries = call.shared.slowlog.entries();
    call.out.array(entries.len().min(count));
    for entry in entries.iter().take(count) {
        call.out.array(6);
        call.out.integer(entry.id as i64);
        call.out.integer(entry.time as i64);
        call.out.integer(entry.duration as i64);
        call.out.array(entry.args.len());
        entry.args.iter().for_each(|arg| call.out.bulk(arg));
        call.out.bulk(entry.peer.as_bytes());
        call.out.bulk(&entry.name);
    }
    call.room()
}

/// `SLOWLOG LEN`
pub(super) fn len(call: &mut Call<'_, '_>) -> Outcome {
    call.out.integer(call.shared.slowlog.entries().len() as i64);
    Ok(())
}

/// `SLOWLOG RESET`
pub(super) fn reset(call: &mut Call<'_, '_>) -> Outcome {
    call.shared.slowlog.clear();
    call.out.ok();
    Ok(())
}

/// `SLOWLOG HELP`
pub(super) fn slowlog_help(call: &mut Call<'_, '_>) -> Outcome {
    describe::help_of(call, "slowlog")
}

/// `LATENCY LATEST`
pub(super) fn latest(call: &mut Call<'_, '_>) -> Outcome {
    let events = call.shared.latency.events();
    call.out.array(events.len());
    for (name, event) in events {
        let (time, last) = event.samples.back().copied().unwrap_or_default();
        call.out.array(4);
        call.out.bulk(name.as_bytes());
        [time, last, event.longest].into_iter().for_each(|number| call.out.integer(number as i64));
    }
    Ok(())
}

/// `LATENCY HISTORY event`
pub(super) fn history(call: &mut Call<'_, '_>) -> Outcome {
    let samples = call.shared.latency.event(call.args.get(2)).map(|event| &event.samples);
    call.out.array(samples.map_or(0, |samples| samples.len()));
    for (time, last) in samples.into_iter().flatten() {
        call.out.array(2);
        call.out.integer(*time as i64);
        call.out.integer(*last as i64);
    }
    Ok(())
}

/// `LATENCY RESET [event ...]`
pub(super) fn latency_reset(call: &mut Call<'_, '_>) -> Outcome {
    let dropped = match call.args.len() {
        2 => call.shared.latency.clear(),
        _ => call.args.from(2).filter(|name| call.shared.latency.drop_event(name)).count(),
    };
    call.out.integer(dropped as i64);
    Ok(())
}

/// `LATENCY GRAPH event`: the samples, one a line.
pub(super) fn graph(call: &mut Call<'_, '_>) -> Outcome {
    let name = call.args.get(2);
    let Some(Event { samples, longest }) = call.shared.latency.event(name) else {
        return Err(Fail::made([b"ERR No samples available for event '", name, b"'"].concat()));
    };
    const WIDTH: u64 = 60;
    let mut text = format!("{} - high {longest} ms\n", String::from_utf8_lossy(name));
    for (time, last) in samples {
        let bar = "#".repeat((last * WIDTH / (*longest).max(1)) as usize);
        text.push_str(&format!("{time} {last:>8} ms {bar}\n"));
    }
    call.out.text(&text);
    Ok(())
}

/// `LATENCY DOCTOR`
pub(super) fn latency_doctor(call: &mut Call<'_, '_>) -> Outcome {
    let mut text = String::new();
    if call.shared.options.latency_threshold == 0 {
        text.push_str(
            "Latencies are not watched. CONFIG SET latency-monitor-threshold with a number of milliseconds keeps what \
             takes longer; LATENCY HISTOGRAM has the times of all commands, INFO persistence those of settlements.\n",
        );
    } else if call.shared.latency.events().is_empty() {
        text.push_str("Nothing took longer than latency-monitor-threshold.\n");
    }
    for (name, event) in call.shared.latency.events() {
        text.push_str(&format!("{name}: {} seconds with samples, at most {} ms.", event.samples.len(), event.longest));
        text.push_str(match *name {
            "aof-fsync-always" => " The device is slow to make writes durable.\n",
            _ => " SLOWLOG GET shows which commands; COMMAND DOCS says what each costs.\n",
        });
    }
    call.out.text(&text);
    Ok(())
}

/// `LATENCY HISTOGRAM [command ...]`
pub(super) fn histogram(call: &mut Call<'_, '_>) -> Outcome {
    let table = CommandTable::get();
    let counts = &call.shared.metrics.by_command;
    let asked: Vec<usize> = match call.args.len() {
        2 => (0..table.rows.len()).collect(),
        _ => call.args.from(2).filter_map(|name| table.find(name)).collect(),
    };
    // Of a container, its parts.
    let within = |row: usize| {
        let container = !table.rows[row].subcommands.is_empty() && call.args.len() > 2;
        row..row + 1 + if container { table.rows[row].subcommands.len() } else { 0 }
    };
    let times = |row: usize| Some((row, counts[row].times.as_deref()?));
    let rows: Vec<(usize, &Times)> = asked.into_iter().flat_map(within).filter_map(times).collect();
    call.out.map(rows.len());
    for (row, times) in rows {
        call.out.bulk(table.rows[row].name.as_bytes());
        call.out.map(2);
        call.out.bulk(b"calls");
        call.out.integer(times.count() as i64);
        call.out.bulk(b"histogram_usec");
        let ranges = times.ranges();
        let filled: Vec<usize> = (0..RANGES).filter(|range| ranges[*range] > 0).collect();
        call.out.map(filled.len());
        let mut sum = 0;
        for range in filled {
            sum += ranges[range];
            call.out.integer(range_end(range) as i64);
            call.out.integer(sum as i64);
        }
    }
    call.room()
}

/// `LATENCY HELP`
pub(super) fn latency_help(call: &mut Call<'_, '_>) -> Outcome {
    describe::help_of(call, "latency")
}
