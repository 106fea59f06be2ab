//! The checker of C++ programs: bugs that no compiler refuses, found in clang's syntax tree.
//!
//! clang compiles the program as it would otherwise, without making code, and prints its tree;
//! `tree` reads the declarations of the program's own files, and `rules` looks for bugs in them.
//! Own is every file that is no header of the system; Everbyte's headers and the generated ones
//! count as the system's.
//!
//! A comment allows a deliberate use, on its line or alone on the lines above it, with a reason:
//! `// everbyte: allow(cast) written by a test alone`. One without a reason, of an unknown rule, or
//! that allows nothing is a finding itself.
//!
//! docs/design/bridge.md has the reason for a tree in place of a plugin.

mod rules;
mod tree;

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// A bug in a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, as clang names it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The name of the rule, as a comment names it to allow a use.
    pub rule: &'static str,
    /// The reason, and the way to write it.
    pub text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.file, self.line, self.rule, self.text)
    }
}

/// Why a program was not checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is no clang of that name.
    #[error("`{clang}` cannot be run: {source}; install clang, or name one by --clang")]
    NoClang {
        /// The command.
        clang: String,
        /// The system's words.
        source: io::Error,
    },
    /// clang refuses the program.
    #[error("{program}: it does not compile\n{said}")]
    Program {
        /// The file.
        program: String,
        /// clang's words.
        said: String,
    },
    /// The tree or a file cannot be read.
    #[error("{program}: its tree cannot be read: {source}")]
    Tree {
        /// The file.
        program: String,
        /// The cause.
        source: io::Error,
    },
}

/// Checks a program, which `clang` compiles with these words beside `-std=c++20`.
///
/// # Errors
/// If there is no clang, or the program does not compile.
pub fn check(clang: &OsStr, words: &[impl AsRef<OsStr>], program: &Path) -> Result<BTreeSet<Finding>, CheckError> {
    let named = || program.display().to_string();
    let broken = |source| CheckError::Tree { program: named(), source };
    let own = own_files(clang, words, program)?;
    let mut command = Command::new(clang);
    command.args(["-std=c++20", "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json"]).args(words).arg(program);
    let running = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = running.map_err(broken)?;
    let (output, mut errors) = (running.stdout.take().expect("a pipe"), running.stderr.take().expect("a pipe"));
    let words_of_clang = std::thread::spawn(move || {
        let mut said = Vec::new();
        errors.read_to_end(&mut said).map(|_| String::from_utf8_lossy(&said).trim_end().to_string())
    });
    let mut dump = BufReader::with_capacity(1 << 18, output);
    let tree = tree::read(&mut dump, &own);
    let rest = io::copy(&mut dump, &mut io::sink()); // so that clang does not wait
    let status = running.wait().map_err(broken)?;
    let said = words_of_clang.join().expect("a thread that does not panic").map_err(broken)?;
    if !status.success() {
        return Err(CheckError::Program { program: named(), said });
    }
    let tree = tree.and_then(|tree| rest.map(|_| tree)).map_err(broken)?;
    let mut findings = rules::findings(&tree, &own);
    for file in &own {
        let text = std::fs::read(file).map_err(broken)?;
        let is_program = Path::new(file) == program.strip_prefix("./").unwrap_or(program);
        allow(&mut findings, (file, is_program), &String::from_utf8_lossy(&text));
    }
    Ok(findings)
}

/// The files of a program that are no headers of the system.
fn own_files(clang: &OsStr, words: &[impl AsRef<OsStr>], program: &Path) -> Result<HashSet<String>, CheckError> {
    let mut command = Command::new(clang);
    command.args(["-std=c++20", "-w", "-MM", "-MT", "program"]);
    let running = command.args(words).arg(program).stdin(Stdio::null()).output();
    let listed = running.map_err(|source| CheckError::NoClang { clang: clang.to_string_lossy().into(), source })?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr).trim_end().to_string();
        return Err(CheckError::Program { program: program.display().to_string(), said });
    }
    let text = String::from_utf8_lossy(&listed.stdout).replace("\\\n", " ").replace("\\ ", "\0");
    let files = text.split_whitespace().skip(1);
    Ok(files.map(|file| file.trim_start_matches("./").replace('\0', " ")).collect())
}

/// Takes out what the comments of a file allow, and adds the comments that are wrong. A header may
/// allow what another program's instances of its templates do: only of the program's own file is a
/// comment without a finding wrong.
fn allow(findings: &mut BTreeSet<Finding>, (file, is_program): (&str, bool), text: &str) {
    const MARK: &str = "everbyte: allow(";
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((before, (rule, reason))) = line
            .split_once(MARK)
            .and_then(|(before, words)| Some((before.trim_end().strip_suffix("//")?, words.split_once(')')?)))
        else {
            continue;
        };
        // Alone on its line it is about the next line of the program.
        let is_comment = |line: &str| line.trim_start().starts_with("//");
        let next = || (index + 1..lines.len()).find(|next| !is_comment(lines[*next])).unwrap_or(index);
        let about = if before.trim().is_empty() { next() } else { index };
        let wrong = |text: String| Finding { file: file.into(), line: index as u32 + 1, rule: "allow", text };
        let is_about = |one: &Finding| {
            one.file.trim_start_matches("./") == file && one.line as usize == about + 1 && one.rule == rule
        };
        let before = findings.len();
        if !rules::RULES.contains(&rule) {
            findings.insert(wrong(format!("there is no rule `{rule}`; there are {}", rules::RULES.join(", "))));
        } else if reason.trim().is_empty() {
            findings.insert(wrong("say the reason behind it, as in `allow(cast) read by a test alone`".into()));
        } else {
            findings.retain(|one| !is_about(one));
            if is_program && findings.len() == before {
                findings.insert(wrong(format!("nothing in line {} is refused by `{rule}`: take it out", about + 1)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(line: u32, rule: &'static str) -> Finding {
        Finding { file: "a.cpp".into(), line, rule, text: "no".into() }
    }

    /// The findings that are left of two in lines 2 and 4.
    fn left(text: &str) -> Vec<(u32, &'static str, String)> {
        let mut findings = BTreeSet::from([finding(2, "cast"), finding(4, "kept")]);
        allow(&mut findings, ("a.cpp", true), text);
        findings.into_iter().map(|one| (one.line, one.rule, one.text)).collect()
    }

    fn kinds(text: &str) -> Vec<(u32, &'static str)> {
        left(text).into_iter().map(|(line, rule, _)| (line, rule)).collect()
    }

    #[test]
    fn a_comment_allows_its_line_or_the_next_one() {
        assert_eq!(kinds("\nx;\n\ny;"), [(2, "cast"), (4, "kept")]);
        assert_eq!(kinds("\nx; // everbyte: allow(cast) a reason\n\ny;"), [(4, "kept")]);
        assert_eq!(kinds("// everbyte: allow(cast) a reason\nx;\n// everbyte: allow(kept) a reason\ny;"), []);
        // With more lines of the comment behind it.
        assert_eq!(
            kinds("\nx;// everbyte: allow(kept) a reason\n// of two lines\ny;"),
            [(2, "allow"), (2, "cast"), (4, "kept")]
        );
        assert_eq!(kinds("\n// everbyte: allow(kept) a reason\n// of two lines\ny;"), [(2, "cast")]);
    }

    #[test]
    fn a_comment_that_allows_nothing_or_gives_no_reason_is_refused() {
        assert_eq!(kinds("\nx; // everbyte: allow(kept) a reason\n\ny;"), [(2, "allow"), (2, "cast"), (4, "kept")]);
        assert_eq!(kinds("\nx; // everbyte: allow(cast)\n\ny;"), [(2, "allow"), (2, "cast"), (4, "kept")]);
        let said = left("\nx; // everbyte: allow(casts) a reason\n\ny;");
        assert!(said[0].2.starts_with("there is no rule `casts`; there are cast, volatile"), "{said:?}");
        assert!(left("x; // everbyte: allow(cast) a reason")[0].2.contains("nothing in line 1 is refused by `cast`"));
    }
}
