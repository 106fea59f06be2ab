//! Searches compiled code for stores that bypass the runtime of transactions.
//!
//! Instrumented are GCC's clones `_ZGTt...` of functions that blocks call, and what a function does
//! from `_ITM_beginTransaction` to the commit, but for the way that it goes where the runtime says
//! to run the block as it stands (bit 1 of the answer) or that it was cancelled (bit 4). There
//! every store to memory that others can see is a call of the runtime's; what is left goes to the
//! stack.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// As objdump shows it.
struct Instruction {
    at: u64,
    name: String,
    operands: String,
    /// The symbol that the linker puts in.
    symbol: Option<String>,
}

type Functions = BTreeMap<String, Vec<Instruction>>;

/// Hidden stores in the instrumented code of an object file: plain calls of memset and its kin, and
/// direct stores to anything but the stack, each with its function.
pub(crate) fn hidden(object: &Path) -> Vec<String> {
    let functions = read(object);
    let endless: BTreeSet<&str> =
        functions.iter().filter(|(_, code)| !code.iter().any(returns)).map(|(name, _)| name.as_str()).collect();
    let (mut found, mut seen) = (Vec::new(), 0);
    for (name, code) in &functions {
        let begins = code.iter().enumerate().filter(|(_, one)| one.calls("_ITM_beginTransaction"));
        let starts: Vec<usize> =
            if name.starts_with("_ZGTt") { vec![0] } else { begins.map(|(index, _)| index + 1).collect() };
        seen += starts.len();
        let reached = starts.iter().flat_map(|&start| instrumented(code, start, &endless)).collect::<BTreeSet<_>>();
        let frame = code.iter().any(|one| one.name == "mov" && one.operands == "%rsp,%rbp");
        let hiding = reached.into_iter().map(|index| &code[index]).filter(|one| one.hides(frame));
        found.extend(hiding.map(|one| {
            let symbol = one.symbol.as_deref().unwrap_or_default();
            format!("{name}+{:#x}: {} {} {symbol}", one.at - code[0].at, one.name, one.operands)
        }));
    }
    assert!(seen > 0, "{} has no instrumented code", object.display());
    found
}

fn read(object: &Path) -> Functions {
    let output =
        Command::new("objdump").args(["-d", "-r", "--no-show-raw-insn"]).arg(object).output().expect("objdump");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut functions, mut name) = (Functions::new(), String::new());
    for line in text.lines() {
        if let Some((_, begun)) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            name = begun.into();
            continue;
        }
        let code = functions.entry(name.clone()).or_default();
        if let Some((_, relocation)) = line.split_once("R_X86_64_") {
            let symbol = relocation.split_whitespace().nth(1).unwrap_or_default();
            let end = symbol.find("-0x").or(symbol.find("+0x")).unwrap_or(symbol.len());
            code.last_mut().expect("an instruction before its relocation").symbol = Some(symbol[..end].into());
        } else if let Some((at, instruction)) = line.split_once(":\t") {
            let instruction = instruction.split('#').next().unwrap_or_default().trim();
            let (name, operands) = instruction.split_once(char::is_whitespace).unwrap_or((instruction, ""));
            let at = u64::from_str_radix(at.trim(), 16).expect("an address");
            code.push(Instruction { at, name: name.into(), operands: operands.trim().into(), symbol: None });
        }
    }
    functions.retain(|_, code| !code.is_empty());
    functions
}

/// Whether control comes back from a function by this: it returns, or another does so in its stead.
fn returns(one: &Instruction) -> bool {
    one.name == "ret" || one.name == "jmp" && one.symbol.is_some()
}

/// Follows every way from `start` on, inside one transaction, to its end.
fn instrumented(code: &[Instruction], start: usize, endless: &BTreeSet<&str>) -> BTreeSet<usize> {
    let index_of = |at: u64| code.binary_search_by_key(&at, |one| one.at).ok();
    let (mut seen, mut ways) = (BTreeSet::new(), vec![(start, 1)]);
    while let Some((mut index, mut depth)) = ways.pop() {
        let mut asked = None; // the bit of the runtime's answer that was looked at
        while index < code.len() && seen.insert((index, depth)) {
            let one = &code[index];
            let next = one.jumps_to().and_then(index_of);
            match one.name.as_str() {
                "call" if one.calls("_ITM_abortTransaction") || one.calls("_ITM_cxa_throw") => break,
                "call" if one.symbol.is_none() && one.callee().is_some_and(|callee| endless.contains(callee)) => break,
                "call" if one.calls("_ITM_beginTransaction") => depth += 1,
                "call" if one.calls("_ITM_commitTransaction") || one.calls("_ITM_commitTransactionEH") => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                "call" => asked = None,
                "ret" | "ud2" | "hlt" => break,
                "jmp" => match next {
                    Some(next) if one.symbol.is_none() => {
                        index = next;
                        continue;
                    }
                    _ => break,
                },
                "je" | "jne" if asked.is_some() => {
                    let next = next.expect("a way inside the function");
                    let (set, clear) = if one.name == "jne" { (next, index + 1) } else { (index + 1, next) };
                    if asked.take() == Some("$0x10") && depth > 1 {
                        ways.push((set, depth - 1)); // cancelled: its outer one goes on
                    }
                    index = clear;
                    continue;
                }
                name if name.starts_with('j') => ways.extend(next.map(|next| (next, depth))),
                name if name.starts_with("test") || name.starts_with("and") => {
                    asked = ["$0x2", "$0x10"]
                        .into_iter()
                        .find(|bit| one.operands.split(',').next() == Some(*bit))
                        .or(asked);
                }
                _ => {}
            }
            index += 1;
        }
    }
    seen.into_iter().map(|(index, _)| index).collect()
}

impl Instruction {
    fn calls(&self, name: &str) -> bool {
        self.name == "call" && self.symbol.as_deref() == Some(name)
    }

    /// The address of a jump within the function.
    fn jumps_to(&self) -> Option<u64> {
        self.name
            .starts_with('j')
            .then(|| self.operands.split_once(' '))?
            .and_then(|(at, _)| u64::from_str_radix(at, 16).ok())
    }

    /// Functions called in the same object file.
    fn callee(&self) -> Option<&str> {
        self.operands.split_once('<')?.1.strip_suffix('>')
    }

    /// Whether it changes memory that other threads can see, or calls a function that does.
    /// `frame`: %rbp leads to the stack, too.
    fn hides(&self, frame: bool) -> bool {
        const PLAIN: [&str; 5] = ["memset", "memcpy", "memmove", "__memset_chk", "__memcpy_chk"];
        if self.name == "call" || self.name == "jmp" {
            return self.symbol.as_deref().is_some_and(|symbol| PLAIN.contains(&symbol));
        }
        let Some((_, base)) = self.operands.strip_suffix(')').and_then(|target| target.rsplit_once('(')) else {
            return false;
        };
        let on_stack = base.starts_with("%rsp") || frame && base.starts_with("%rbp");
        !on_stack && !self.only_reads()
    }

    /// Of an instruction whose last operand is memory.
    fn only_reads(&self) -> bool {
        const READS: [&str; 13] =
            ["cmp", "test", "nop", "call", "j", "push", "prefetch", "mul", "imul", "div", "idiv", "data16", "cs"];
        let floating = self.name.starts_with('f');
        let stores_floating = ["fst", "fist", "fnst"].iter().any(|name| self.name.starts_with(name));
        (floating && !stores_floating) || READS.iter().any(|name| self.name.starts_with(name))
    }
}
