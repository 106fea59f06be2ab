//! Looks into compiled code for stores that a transaction's runtime never hears of.
//!
//! GCC makes an instrumented clone, `_ZGTt...`, of each function that a block calls. In it every store to memory that others
//! can see is a call of the runtime's; what is left goes to the stack.

use std::path::Path;
use std::process::Command;

/// What hides in the instrumented clones of an object file: plain calls of memset and its kin, and direct stores to anything
/// but the stack, each with its function.
pub fn hidden(object: &Path) -> Vec<String> {
    let output =
        Command::new("objdump").args(["-d", "-r", "--no-show-raw-insn"]).arg(object).output().expect("objdump");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut function, mut found, mut seen) = ("", Vec::new(), 0);
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            function = name.1;
            seen += usize::from(function.starts_with("_ZGTt"));
        } else if function.starts_with("_ZGTt") && (calls_plainly(line) || stores_directly(line)) {
            found.push(format!("{function}: {}", line.trim()));
        }
    }
    assert!(seen > 0, "{} has no instrumented clone", object.display());
    found
}

/// A relocation for one of the functions into which GCC turns loops.
fn calls_plainly(line: &str) -> bool {
    let target = line.split("R_X86_64_").nth(1).and_then(|rest| rest.split_whitespace().nth(1));
    target.is_some_and(|target| ["memset", "memcpy", "memmove"].iter().any(|name| target.starts_with(name)))
}

/// An instruction that moves something to memory which the stack pointer does not lead to.
fn stores_directly(line: &str) -> bool {
    let Some((_, instruction)) = line.split_once(":\t") else { return false };
    let Some((name, operands)) = instruction.trim().split_once(char::is_whitespace) else { return false };
    let moves = name.starts_with("mov") || name.starts_with("vmov") || name.starts_with("stos");
    let target = operands.trim().rsplit_once(',').map_or("", |(_, target)| target);
    let in_parentheses = operands.trim().ends_with(')').then(|| operands.rsplit('(').next().unwrap_or(target));
    moves && in_parentheses.is_some_and(|address| !address.starts_with("%rsp") && !address.starts_with("%rbp"))
}
