//! Facts about processes that their calls do not tell, from `/proc/PID/status`.

use std::fmt::Display;

/// The number of SIGHUP on every architecture.
const SIGHUP: u32 = 1;

/// The further groups of a process; none once it has ended.
pub fn further_groups(process: u32) -> Vec<u32> {
    let groups = line(process, "Groups:");
    groups.split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

/// Whether this process was started with SIGHUP ignored, as by nohup(1).
pub fn ignores_hangups() -> bool {
    u64::from_str_radix(line("self", "SigIgn:").trim(), 16).is_ok_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// The rest of the line that begins with `name`.
fn line(process: impl Display, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_and_an_absent_one_has_no_groups() {
        assert_eq!(further_groups(std::process::id()).len(), line("self", "Groups:").split_whitespace().count());
        assert_eq!(further_groups(u32::MAX), []);
        assert_eq!(line("self", "Pid:").trim(), std::process::id().to_string());
        assert_eq!(line("self", "SigIgn:").trim().len(), 16);
    }
}
