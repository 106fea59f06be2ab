//! The rules of the checker, over the syntax tree of one program.
//!
//! Templates are checked by their instances, in which every type is known; what no program
//! instantiates is not checked. A value *lies in a pool* if it is reached through a `pointer_t`, a
//! root, the right to change one, or a container; if its class lists its fields, it may. The
//! checker follows an expression to the variable or the object that it begins with, and a local
//! reference or pointer to the expression that it was made from. It does not follow values through
//! calls.

use super::Finding;
use super::tree::{Node, is_own};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The names of the rules, as a comment names them.
pub(super) const RULES: [&str; 5] = ["cast", "volatile", "kept", "raw", "fields"];

const CAST: &str = "what lies in a pool is changed behind the log by a cast: a roll-back or a crash leaves it half changed; \
    use `mut(t)` or `mut(t, &T::field)`";
const VOLATILE: &str = "a variable outside of the transaction is changed in it, and stays changed if it is rolled back: \
    return the new value from the lambda, and assign it behind `txn`";
const KEPT: &str = "a pointer, a reference or the right to change, kept past its transaction: \
    return a value, and find the object anew in the next transaction";
const RAW: &str =
    "a function of the library is reached without its header's checks: call the methods of the generated headers";
const FIELDS: &str = "the description of a class is made by hand, so it may hide pointers: use EVERBYTE_FIELDS";
const NUMBER: &str = "a field that holds an address as a number means nothing in the next run: use a `pointer_t`";

/// Members of std's classes that change their object.
const CHANGES: [&str; 43] = [
    "push_back",
    "push_front",
    "emplace_back",
    "emplace_front",
    "pop_back",
    "pop_front",
    "push",
    "pop",
    "emplace",
    "emplace_hint",
    "insert",
    "insert_after",
    "insert_or_assign",
    "try_emplace",
    "erase",
    "erase_after",
    "remove",
    "remove_if",
    "unique",
    "clear",
    "assign",
    "append",
    "resize",
    "replace",
    "swap",
    "reset",
    "release",
    "set",
    "flip",
    "merge",
    "extract",
    "splice",
    "sort",
    "reverse",
    "store",
    "exchange",
    "fetch_add",
    "fetch_sub",
    "fetch_or",
    "fetch_and",
    "fetch_xor",
    "compare_exchange_strong",
    "compare_exchange_weak",
];

/// Functions of std that change their arguments, by the number of those that they change.
const FUNCTIONS: [(&str, usize); 5] = [("swap", 2), ("exchange", 1), ("memcpy", 1), ("memmove", 1), ("memset", 1)];

/// The findings of a program, whose declarations are `tree`.
pub(super) fn findings(tree: &[Node], own: &HashSet<String>) -> BTreeSet<Finding> {
    let mut walk = Walk {
        own,
        findings: BTreeSet::new(),
        variables: HashMap::new(),
        globals: HashSet::new(),
        listed: HashSet::new(),
    };
    tree.iter().for_each(|node| node.each(&mut |node| walk.learn(node)));
    tree.iter().for_each(|node| walk.learn_globals(node));
    tree.iter().for_each(|node| walk.visit(node, None, None));
    walk.findings
}

struct Walk<'n> {
    own: &'n HashSet<String>,
    findings: BTreeSet<Finding>,
    variables: HashMap<&'n str, &'n Node>,
    /// Those of namespaces.
    globals: HashSet<&'n str>,
    /// The classes that list their fields, by the last part of their names.
    listed: HashSet<&'n str>,
}

/// The outermost transaction around an expression.
struct Within<'n> {
    /// Variables that end with it: its own, and copies.
    inside: HashSet<&'n str>,
    /// Whether it is a lambda, which names variables of its function.
    is_lambda: bool,
}

/// The variable or object that an expression begins with.
#[derive(Clone, Copy)]
enum Root<'n> {
    Variable(&'n Node),
    This(&'n Node),
    Pool,
    Other,
}

impl<'n> Walk<'n> {
    fn learn(&mut self, node: &'n Node) {
        match &*node.kind {
            "VarDecl" | "ParmVarDecl" | "BindingDecl" | "DecompositionDecl" => {
                self.variables.insert(&node.id, node);
            }
            "ClassTemplateSpecializationDecl" if node.name == "fields" => {
                let class = node.inner.iter().find(|one| one.kind == "TemplateArgument");
                self.listed.extend(class.map(|class| last_part(&class.of)));
            }
            _ => {}
        }
    }

    fn learn_globals(&mut self, node: &'n Node) {
        match &*node.kind {
            "VarDecl" => {
                self.globals.insert(&node.id);
            }
            "NamespaceDecl" | "LinkageSpecDecl" => node.inner.iter().for_each(|inner| self.learn_globals(inner)),
            _ => {}
        }
    }

    /// `lambda`: the innermost one around the node.
    fn visit(&mut self, node: &'n Node, lambda: Option<&'n Node>, within: Option<&Within<'n>>) {
        let of_function = match (&*node.kind, within) {
            ("CXXMethodDecl" | "FunctionDecl", None) => transaction(node, lambda),
            _ => None,
        };
        let lambda = if node.kind == "LambdaExpr" { Some(node) } else { lambda };
        let within = of_function.as_ref().or(within);
        self.cast(node);
        self.raw(node);
        self.fields(node);
        if let Some(within) = within {
            self.change(node, within);
        }
        node.inner.iter().for_each(|inner| self.visit(inner, lambda, within));
    }

    fn report(&mut self, node: &Node, rule: &'static str, text: &str) {
        // A declaration where it has its name, else where it begins.
        let at = if node.named_at.line == 0 { &node.at } else { &node.named_at };
        if is_own(self.own, &at.file) {
            self.findings.insert(Finding { file: at.file.to_string(), line: at.line, rule, text: text.into() });
        }
    }

    fn cast(&mut self, node: &'n Node) {
        let Some(operand) = node.inner.first() else { return };
        let is_address = |of: &str| of.ends_with('*') || of.ends_with('&');
        let is_cast = match &*node.kind {
            "CXXConstCastExpr" => !keeps_const(node, operand),
            "CXXReinterpretCastExpr" => true,
            // Of a value it makes another value.
            "CStyleCastExpr" | "CXXFunctionalCastExpr" => {
                let is_same = bare(&node.written) == bare(&operand.written) && keeps_const(node, operand);
                let is_of_address = is_address(&operand.of) && node.of != "void";
                !is_same && (node.is_place || is_address(&node.written) || is_of_address)
            }
            _ => return,
        };
        if !is_cast {
            return;
        }
        let is_listed = |of: &String| self.listed.contains(last_part(of)) || is_of_pool(of);
        let is_in_pool = match self.root(operand, true) {
            Root::Pool => true,
            // A reference that a function is given may lead anywhere.
            Root::Variable(one) => {
                one.kind == "ParmVarDecl" && one.of.ends_with('&') && node.kind == "CXXConstCastExpr"
            }
            _ => false,
        };
        if is_in_pool || [&node.of, &node.written, &operand.of, &operand.written].into_iter().any(is_listed) {
            self.report(node, "cast", CAST);
        }
    }

    fn raw(&mut self, node: &'n Node) {
        if node.at.spelled.as_ref().is_some_and(|file| !is_own(self.own, file)) {
            return;
        }
        let is_symbol = |name: &str| name.starts_with("everbyte_bridge_");
        let inner = ["bridge::entry", "bridge::raw_", "bridge::status", "bridge::table<"];
        let is_raw = match &*node.kind {
            "FunctionDecl" => is_symbol(&node.name),
            "StringLiteral" => is_symbol(node.value.trim_matches('"')),
            "DeclRefExpr" => {
                let refers = node.refers.as_deref();
                refers.is_some_and(|one| is_symbol(&one.name))
                    || refers.is_some_and(|one| one.kind.ends_with("FunctionDecl") || one.kind == "CXXMethodDecl")
                        && inner.iter().any(|part| node.written.contains(part))
            }
            "VarDecl" => inner.iter().any(|part| node.written.contains(part)),
            _ => false,
        };
        if is_raw {
            self.report(node, "raw", RAW);
        }
    }

    fn fields(&mut self, node: &'n Node) {
        let is_by_hand = node.at.spelled.is_none();
        let has_list = |node: &Node| node.inner.iter().any(|one| one.name == "everbyte_list");
        match &*node.kind {
            "ClassTemplateSpecializationDecl" | "ClassTemplatePartialSpecializationDecl"
                if is_by_hand && (node.name == "is_psafe" || node.name == "fields" && has_list(node)) =>
            {
                self.report(node, "fields", FIELDS);
            }
            "CXXRecordDecl" if self.listed.contains(&*node.name) => {
                let numbers = node.inner.iter().filter(|field| field.kind == "FieldDecl");
                for field in numbers.filter(|field| field.written.contains("intptr_t")) {
                    self.report(field, "fields", NUMBER);
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, node: &'n Node, within: &Within<'n>) {
        let inner = |index: usize| node.inner.get(index);
        let (targets, values): (Vec<&Node>, &[Node]) = match &*node.kind {
            "BinaryOperator" if node.opcode == "=" => (inner(0).into_iter().collect(), &node.inner[1..]),
            "CompoundAssignOperator" => (inner(0).into_iter().collect(), &[]),
            "UnaryOperator" if matches!(&*node.opcode, "++" | "--") => (inner(0).into_iter().collect(), &[]),
            "CXXOperatorCallExpr" if changes(called(node)) => {
                (inner(1).into_iter().collect(), node.inner.get(2..).unwrap_or_default())
            }
            "CXXMemberCallExpr" => match inner(0).and_then(|member| Some((member, member.inner.first()?))) {
                Some((member, object)) if is_change(member, object) => (vec![object], &node.inner[1..]),
                _ => return,
            },
            "CallExpr" => match FUNCTIONS.iter().find(|(name, _)| *name == called(node)) {
                Some((_, count)) => (node.inner.iter().skip(1).take(*count).collect(), &node.inner[1..]),
                None => return,
            },
            // A result that is a lambda, or may be one, keeps what that captures.
            "ReturnStmt" => {
                let is_lambda =
                    |of: &str| ["(lambda", "std::function<", "std::any"].iter().any(|part| of.contains(part));
                let mut returned = node.inner.iter().filter(|value| is_lambda(&value.of));
                if within.is_lambda && returned.any(|value| self.ends(value) || self.names_lambda_that_ends(value)) {
                    self.report(node, "kept", KEPT);
                }
                return;
            }
            // A variable that outlives the transaction in which it is made.
            "VarDecl" if is_static(node) => {
                if node.inner.iter().any(|value| self.ends(value)) || ends_by_type(&node.of) {
                    self.report(node, "kept", KEPT);
                }
                return;
            }
            _ => return,
        };
        if !targets.into_iter().any(|target| self.is_outside(target, within)) {
            return;
        }
        if values.iter().any(|value| self.ends(value)) {
            self.report(node, "kept", KEPT);
        } else {
            self.report(node, "volatile", VOLATILE);
        }
    }

    /// Whether an expression is a part of what the transaction does not roll back.
    fn is_outside(&self, target: &'n Node, within: &Within<'n>) -> bool {
        if target.of.starts_with("const ") && !target.of.ends_with('*') {
            return false;
        }
        if let ("ConditionalOperator", [_, one, other]) = (&*target.kind, &target.inner[..]) {
            return self.is_outside(one, within) || self.is_outside(other, within);
        }
        if target.kind == "ParenExpr" {
            return target.inner.first().is_some_and(|inner| self.is_outside(inner, within));
        }
        match self.root(target, false) {
            Root::Variable(one) if is_static(one) || self.globals.contains(&*one.id) => true,
            // A function does not know whose the references are that it is given.
            Root::Variable(one) => within.is_lambda && !within.inside.contains(&*one.id),
            Root::This(object) => within.is_lambda && !self.listed.contains(last_part(&object.of)),
            Root::Pool | Root::Other => false,
        }
    }

    /// Whether a value means nothing when its transaction has ended.
    fn ends(&self, value: &'n Node) -> bool {
        let mut inner = value;
        while let ("ImplicitCastExpr", Some(next)) = (&*inner.kind, inner.inner.first()) {
            inner = next;
        }
        ends_by_type(&value.of)
            || ends_by_type(&inner.of)
            || value.of.ends_with('*') && matches!(self.root(value, true), Root::Pool)
            || has_lambda_that_ends(value)
    }

    /// Whether a value is made of a variable that is a lambda which captures what ends.
    fn names_lambda_that_ends(&self, value: &Node) -> bool {
        value.has(&|node| {
            let variable = node.refers.as_ref().and_then(|one| self.variables.get(&*one.id));
            variable.is_some_and(|one| has_lambda_that_ends(one))
        })
    }

    /// Follows an expression to where it begins; `is_read`: it goes through a pointer already.
    fn root(&self, node: &'n Node, is_read: bool) -> Root<'n> {
        let first = |index: usize, is_read: bool| match node.inner.get(index) {
            Some(inner) => self.root(inner, is_read),
            None => Root::Other,
        };
        match &*node.kind {
            "DeclRefExpr" => {
                let Some(refers) = &node.refers else { return Root::Other };
                let Some(one) = self.variables.get(&*refers.id) else { return Root::Other };
                let is_followed =
                    one.of.ends_with('&') || one.kind == "BindingDecl" || is_read && one.of.ends_with('*');
                // The expression comes before bindings, attributes and comments, but in a binding.
                let made = if one.kind == "BindingDecl" { one.inner.last() } else { one.inner.first() };
                match made {
                    Some(made) if is_followed && one.kind != "ParmVarDecl" && !made.kind.is_empty() => {
                        self.root(made, is_read)
                    }
                    _ => Root::Variable(one),
                }
            }
            "CXXThisExpr" => Root::This(node),
            "MemberExpr" => first(0, is_read || node.is_arrow),
            "UnaryOperator" => first(0, is_read || node.opcode == "*"),
            "ArraySubscriptExpr" => first(0, true),
            "BinaryOperator" if node.opcode == "," => first(1, is_read),
            "BinaryOperator" | "CompoundAssignOperator" => first(0, is_read),
            "ConditionalOperator" => match first(1, is_read) {
                Root::Pool => Root::Pool,
                _ => first(2, is_read),
            },
            "CXXOperatorCallExpr" => match node.inner.get(1) {
                Some(object)
                    if is_of_pool(&object.of) && matches!(called(node), "operator*" | "operator->" | "operator[]") =>
                {
                    Root::Pool
                }
                Some(object) => self.root(object, is_read),
                None => Root::Other,
            },
            "CXXMemberCallExpr" => {
                let Some(member) = node.inner.first() else { return Root::Other };
                match member.inner.first() {
                    Some(object) if is_of_pool(&object.of) => Root::Pool,
                    Some(object)
                        if matches!(&*member.name, "front" | "back" | "at" | "data" | "get" | "value" | "begin") =>
                    {
                        self.root(object, is_read)
                    }
                    _ => Root::Other,
                }
            }
            "CallExpr" if matches!(called(node), "move" | "forward" | "as_const" | "addressof" | "launder") => {
                first(1, is_read)
            }
            "ImplicitCastExpr"
            | "ParenExpr"
            | "ExprWithCleanups"
            | "MaterializeTemporaryExpr"
            | "CXXBindTemporaryExpr"
            | "ConstantExpr"
            | "CXXConstCastExpr"
            | "CXXReinterpretCastExpr"
            | "CXXStaticCastExpr"
            | "CStyleCastExpr"
            | "CXXFunctionalCastExpr" => first(0, is_read),
            _ => Root::Other,
        }
    }
}

/// The transaction of a function or a lambda that takes one.
fn transaction<'n>(function: &'n Node, lambda: Option<&'n Node>) -> Option<Within<'n>> {
    // Behind a reference clang prints a type as it is written: qualified or not.
    let is_named = |of: &str| of.match_indices("transaction<").any(|(at, _)| at == 0 || of[..at].ends_with([' ', ':']));
    let takes = |one: &Node| one.kind == "ParmVarDecl" && is_named(&one.of);
    if !function.inner.iter().any(takes) {
        return None;
    }
    let is_lambda = function.name == "operator()";
    let mut inside: HashSet<&str> = lambda.filter(|_| is_lambda).into_iter().flat_map(copies).collect();
    function.each(&mut |node| match &*node.kind {
        "VarDecl" | "ParmVarDecl" | "DecompositionDecl" | "BindingDecl" if !is_static(node) => {
            inside.insert(&*node.id);
        }
        "LambdaExpr" => inside.extend(copies(node)),
        _ => {}
    });
    Some(Within { inside, is_lambda })
}

/// The variables of which a lambda has copies.
fn copies(lambda: &Node) -> impl Iterator<Item = &str> {
    let class = lambda.inner.first();
    let fields = class.into_iter().flat_map(|class| &class.inner).filter(|one| one.kind == "FieldDecl");
    let captured = lambda.inner.iter().skip(1).zip(fields);
    captured.filter(|(_, field)| !field.of.ends_with('&') && !field.of.ends_with('*')).filter_map(|(value, _)| {
        let mut named = None;
        value.each(&mut |node| named = named.or(node.refers.as_deref()));
        named.map(|one| &*one.id)
    })
}

fn is_static(variable: &Node) -> bool {
    let is_member_or_global = !variable.storage.is_empty();
    variable.kind == "VarDecl" && is_member_or_global
}

/// The name of the function that a call names.
fn called(call: &Node) -> &str {
    let mut found = "";
    if let Some(callee) = call.inner.first() {
        callee.each(&mut |node| {
            if let (true, Some(refers)) = (found.is_empty(), &node.refers) {
                found = &refers.name;
            }
        });
    }
    found
}

/// Whether an operator changes its first operand.
fn changes(operator: &str) -> bool {
    let Some(sign) = operator.strip_prefix("operator") else { return false };
    matches!(sign, "++" | "--") || sign.ends_with('=') && !matches!(sign, "==" | "!=" | "<=" | ">=")
}

/// Whether a member that is called changes its object.
fn is_change(member: &Node, object: &Node) -> bool {
    let class = if member.is_arrow { pointee(&object.of) } else { &object.of };
    if class.starts_with("const ") || is_of_pool(class) || member.name.starts_with('~') {
        return false;
    }
    let is_of_std = class.starts_with("std::") || class.starts_with("__gnu_cxx::");
    if is_of_std { CHANGES.contains(&&*member.name) } else { !class.contains("everbyte::bridge::") }
}

/// A type of the face: what it leads to lies in a pool.
fn is_of_pool(of: &str) -> bool {
    bare(of).starts_with("everbyte::")
}

/// Whether values of a type end with their transaction.
fn ends_by_type(of: &str) -> bool {
    ["changing<", "pointer_t<", "transaction<"].iter().any(|part| of.contains(part))
}

/// Whether a lambda in an expression captures what ends with its transaction.
fn has_lambda_that_ends(value: &Node) -> bool {
    let captures = |node: &Node| node.kind == "FieldDecl" && ends_by_type(&node.of);
    value.has(&|node| node.kind == "LambdaExpr" && node.has(&captures))
}

/// Whether a cast leaves `const` as it was.
fn keeps_const(cast: &Node, operand: &Node) -> bool {
    let is_const = |of: &str| pointee(of).starts_with("const ");
    is_const(&cast.of) || !is_const(&operand.of)
}

/// The type behind a pointer or a reference.
fn pointee(of: &str) -> &str {
    of.trim_end_matches(['*', '&', ' '])
}

fn bare(of: &str) -> &str {
    pointee(of).trim_start_matches("const ")
}

/// The name of a class without its namespaces.
fn last_part(of: &str) -> &str {
    let name = bare(of);
    if name.contains('<') { name } else { name.rsplit("::").next().unwrap_or(name) }
}
