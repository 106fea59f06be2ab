/* A plugin for GCC that refuses the code in patomic blocks that GCC compiles wrongly, or crashes on.
 *
 * GCC instruments a bit field in a transaction as if it began at the byte that holds its first bit and filled its whole type:
 * no shift, no mask, and bytes behind the struct are stored to. The call that it makes has nothing left from which a library
 * could tell what was meant, so such code must not be compiled.
 *
 *   0. Before GCC looks for what may not be in blocks: refuse va_arg in them, on which it crashes there.
 *   1. Before a function's transactions are lowered: note each bit field in memory that a transaction could share, with its
 *      place, each function called, and which of both lie in blocks.
 *   2. When all functions are known: follow the calls from blocks, and from functions declared safe for blocks, and report
 *      what was noted there.
 *   3. Before accesses are instrumented: look again, for the optimizer divides copies of structs into their fields.
 *
 * Functions that are transaction_pure run as they stand and are left alone. Structs with bit fields may be copied whole in
 * blocks. Built by ci/install for the compiler of its user; a plugin fits one version of GCC. */
#include "gcc-plugin.h"

#include "plugin-version.h"
#include "tree.h"
#include "tree-pass.h"
#include "context.h"
#include "basic-block.h"
#include "gimple.h"
#include "gimple-iterator.h"
#include "gimple-walk.h"
#include "stringpool.h"
#include "attribs.h"
#include "cgraph.h"
#include "tree-dfa.h"
#include "tree-cfg.h"
#include "diagnostic-core.h"
#include "trans-mem.h"

#include <map>
#include <set>
#include <string>
#include <vector>

int plugin_is_GPL_compatible;

namespace {

/* What GCC would compile wrongly. */
struct Use {
    location_t place;
    std::string what;
};

/* Of a function, or of the blocks in it. */
struct Code {
    std::vector<Use> uses;
    std::set<unsigned> calls;
};

struct Function {
    std::string name;
    Code everywhere, in_blocks;
    bool runs_in_blocks; /* declared so */
};

/* By the numbers of their declarations: the declarations themselves may go while the compiler works. */
std::map<unsigned, Function> functions;

bool has_attribute(tree function, const char *name) {
    return lookup_attribute(name, TYPE_ATTRIBUTES(TREE_TYPE(function))) || lookup_attribute(name, DECL_ATTRIBUTES(function));
}

bool is_pure(tree function) {
    return has_attribute(function, "transaction_pure");
}

bool runs_in_blocks(tree function) {
    return has_attribute(function, "transaction_safe") || has_attribute(function, "transaction_callable");
}

struct Walk {
    Function *into;
    unsigned depth; /* of blocks */
    location_t place;
};

void note(Walk *walk, const std::string &what) {
    Use use = {walk->place, what};
    walk->into->everywhere.uses.push_back(use);
    if (walk->depth) walk->into->in_blocks.uses.push_back(use);
}

/* The first bit field in an operand. */
tree find_bit_field(tree *operand, int *into_it, void *) {
    if (TYPE_P(*operand)) *into_it = 0;
    if (TREE_CODE(*operand) == COMPONENT_REF && DECL_BIT_FIELD(TREE_OPERAND(*operand, 1))) return *operand;
    /* What the front end makes of comparisons. */
    bool compared = TREE_CODE(*operand) == BIT_FIELD_REF && AGGREGATE_TYPE_P(TREE_TYPE(TREE_OPERAND(*operand, 0)));
    return compared ? *operand : NULL_TREE;
}

tree bit_field_of(gimple *statement) {
    walk_stmt_info info;
    memset(&info, 0, sizeof info);
    return walk_gimple_op(statement, find_bit_field, &info);
}

std::string name_of(tree reference) {
    tree name = TREE_CODE(reference) == COMPONENT_REF ? DECL_NAME(TREE_OPERAND(reference, 1)) : NULL_TREE;
    return name ? std::string("bit field '") + IDENTIFIER_POINTER(name) + "'" : std::string("a bit field");
}

void look_at(gimple_seq statements, Walk *walk) {
    for (gimple_stmt_iterator at = gsi_start(statements); !gsi_end_p(at); gsi_next(&at)) {
        gimple *statement = gsi_stmt(at);
        if (gimple_has_location(statement)) walk->place = gimple_location(statement);
        switch (gimple_code(statement)) {
        case GIMPLE_TRANSACTION:
            walk->depth++;
            look_at(gimple_transaction_body(as_a<gtransaction *>(statement)), walk);
            walk->depth--;
            continue;
        case GIMPLE_BIND: look_at(gimple_bind_body(as_a<gbind *>(statement)), walk); continue;
        case GIMPLE_TRY:
            look_at(gimple_try_eval(statement), walk);
            look_at(gimple_try_cleanup(statement), walk);
            continue;
        case GIMPLE_CATCH: look_at(gimple_catch_handler(as_a<gcatch *>(statement)), walk); continue;
        case GIMPLE_EH_FILTER: look_at(gimple_eh_filter_failure(statement), walk); continue;
        case GIMPLE_EH_ELSE:
            look_at(gimple_eh_else_n_body(as_a<geh_else *>(statement)), walk);
            look_at(gimple_eh_else_e_body(as_a<geh_else *>(statement)), walk);
            continue;
        case GIMPLE_DEBUG: continue;
        case GIMPLE_CALL:
            if (tree callee = gimple_call_fndecl(statement)) {
                if (is_pure(callee)) continue;
                walk->into->everywhere.calls.insert(DECL_UID(callee));
                if (walk->depth) walk->into->in_blocks.calls.insert(DECL_UID(callee));
            }
            break;
        default: break;
        }
        if (tree reference = bit_field_of(statement)) note(walk, name_of(reference));
    }
}

/* Step 0. */
const pass_data refuse_data = {
    GIMPLE_PASS, "patomic_check_arguments", OPTGROUP_NONE, TV_NONE, PROP_gimple_any, 0, 0, 0, 0,
};

tree refuse_va_arg(gimple_stmt_iterator *at, bool *, walk_stmt_info *) {
    if (gimple_call_internal_p(gsi_stmt(*at), IFN_VA_ARG))
        error_at(gimple_location(gsi_stmt(*at)), "%<va_arg%> in a patomic block, or in a function that is safe for them, crashes GCC: "
                 "take the arguments by a pointer");
    return NULL_TREE;
}

tree refuse_in_block(gimple_stmt_iterator *at, bool *handled, walk_stmt_info *) {
    if (gtransaction *block = dyn_cast<gtransaction *>(gsi_stmt(*at))) {
        walk_stmt_info info;
        memset(&info, 0, sizeof info);
        walk_gimple_seq(gimple_transaction_body(block), refuse_va_arg, NULL, &info);
        *handled = true;
    }
    return NULL_TREE;
}

struct Refuse : gimple_opt_pass {
    explicit Refuse(gcc::context *context) : gimple_opt_pass(refuse_data, context) {}
    bool gate(function *) override { return flag_tm; }
    unsigned execute(function *running) override {
        if (is_pure(running->decl)) return 0;
        walk_stmt_info info;
        memset(&info, 0, sizeof info);
        walk_gimple_seq(gimple_body(running->decl), runs_in_blocks(running->decl) ? refuse_va_arg : refuse_in_block, NULL, &info);
        return 0;
    }
};

/* Step 1. */
const pass_data note_data = {
    GIMPLE_PASS, "patomic_check", OPTGROUP_NONE, TV_NONE, PROP_gimple_any, 0, 0, 0, 0,
};

struct Note : gimple_opt_pass {
    explicit Note(gcc::context *context) : gimple_opt_pass(note_data, context) {}
    bool gate(function *) override { return flag_tm; }
    unsigned execute(function *running) override {
        tree declaration = running->decl;
        if (is_pure(declaration)) return 0;
        Function &noted = functions[DECL_UID(declaration)];
        noted.name = IDENTIFIER_POINTER(DECL_NAME(declaration));
        noted.runs_in_blocks = runs_in_blocks(declaration);
        Walk walk = {&noted, 0, DECL_SOURCE_LOCATION(declaration)};
        look_at(gimple_body(declaration), &walk);
        return 0;
    }
};

void report(const Use &use, const std::string *function) {
    static std::set<std::pair<int, std::string>> reported; /* once a line */
    if (!reported.insert(std::make_pair(LOCATION_LINE(use.place), use.what)).second) return;
    const char *advice = "GCC compiles bit fields in transactions wrongly; use a whole word and masks, or copy the struct as a whole";
    if (function)
        error_at(use.place, "%s in %qs, which runs in patomic blocks: %s", use.what.c_str(), function->c_str(), advice);
    else
        error_at(use.place, "%s in a patomic block: %s", use.what.c_str(), advice);
}

/* Step 2. */
void report_all(void *, void *) {
    std::map<unsigned, unsigned> targets; /* of other names of functions */
    cgraph_node *node;
    FOR_EACH_FUNCTION(node)
        if (node->alias && node->analyzed) targets[DECL_UID(node->decl)] = DECL_UID(node->ultimate_alias_target()->decl);
    std::set<unsigned> seen;
    std::vector<unsigned> waiting;
    for (const auto &one : functions) {
        if (one.second.runs_in_blocks) waiting.push_back(one.first);
        for (const Use &use : one.second.in_blocks.uses) report(use, NULL);
        waiting.insert(waiting.end(), one.second.in_blocks.calls.begin(), one.second.in_blocks.calls.end());
    }
    while (!waiting.empty()) {
        unsigned number = waiting.back();
        waiting.pop_back();
        auto target = targets.find(number);
        auto found = functions.find(target == targets.end() ? number : target->second);
        if (found == functions.end() || !seen.insert(found->first).second) continue;
        for (const Use &use : found->second.everywhere.uses) report(use, &found->second.name);
        waiting.insert(waiting.end(), found->second.everywhere.calls.begin(), found->second.everywhere.calls.end());
    }
}

/* Whether a transaction instruments accesses to it: all but variables of the function whose addresses it never takes. */
bool is_shared(tree reference, tree function) {
    tree base = get_base_address(reference);
    return !base || !DECL_P(base) || TREE_ADDRESSABLE(base) || !auto_var_in_fn_p(base, function);
}

/* Step 3. */
const pass_data look_again_data = {
    GIMPLE_PASS, "patomic_check_again", OPTGROUP_NONE, TV_NONE, PROP_cfg, 0, 0, 0, 0,
};

struct LookAgain : gimple_opt_pass {
    explicit LookAgain(gcc::context *context) : gimple_opt_pass(look_again_data, context) {}
    bool gate(function *) override { return flag_tm && !seen_error(); }

    unsigned execute(function *running) override {
        if (is_pure(running->decl)) return 0;
        if (cgraph_node::get(running->decl)->tm_clone) {
            basic_block block;
            FOR_EACH_BB_FN(block, running) look_at_block(block, running, 1);
            return 0;
        }
        basic_block block;
        FOR_EACH_BB_FN(block, running) {
            gimple_stmt_iterator last = gsi_last_nondebug_bb(block);
            if (!gsi_end_p(last) && gimple_code(gsi_stmt(last)) == GIMPLE_TRANSACTION) follow(block, running);
        }
        return 0;
    }

    /* Follows every way from a block's begin to its end; each basic block is looked at once at each depth of blocks. */
    void follow(basic_block begin, function *running) {
        std::set<std::pair<int, unsigned>> seen;
        std::vector<std::pair<basic_block, unsigned>> waiting(1, std::make_pair(begin, 0u));
        while (!waiting.empty()) {
            basic_block block = waiting.back().first;
            unsigned depth = waiting.back().second;
            waiting.pop_back();
            if (!seen.insert(std::make_pair(block->index, depth)).second) continue;
            unsigned after = depth == 0 ? 1 : look_at_block(block, running, depth);
            if (after == 0) continue;
            edge way;
            edge_iterator at;
            FOR_EACH_EDGE(way, at, block->succs)
                if (!(way->flags & (EDGE_TM_UNINSTRUMENTED | EDGE_TM_ABORT))) waiting.push_back(std::make_pair(way->dest, after));
        }
    }

    /* How many blocks are open behind it, of those that were open before. */
    unsigned look_at_block(basic_block block, function *running, unsigned depth) {
        for (gimple_stmt_iterator at = gsi_start_bb(block); !gsi_end_p(at); gsi_next(&at)) {
            gimple *statement = gsi_stmt(at);
            if (gimple_code(statement) == GIMPLE_TRANSACTION) depth++;
            if (is_gimple_call(statement) && is_tm_ending(statement) && --depth == 0) return 0;
            if (is_gimple_debug(statement)) continue;
            tree reference = bit_field_of(statement);
            if (!reference || !is_shared(reference, running->decl)) continue;
            location_t place = gimple_has_location(statement) ? gimple_location(statement) : DECL_SOURCE_LOCATION(running->decl);
            error_at(place, "a copy of a struct in a patomic block, which GCC has divided, so that %s is stored or loaded alone, wrongly: "
                     "add %<-fno-tree-sra%>, or let the struct have no bit fields", name_of(reference).c_str());
            return 0;
        }
        return depth;
    }
};

void insert_before(const char *other, opt_pass *pass, plugin_name_args *names) {
    register_pass_info info;
    info.pass = pass;
    info.reference_pass_name = other;
    info.ref_pass_instance_number = 1;
    info.pos_op = PASS_POS_INSERT_BEFORE;
    register_callback(names->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &info);
}

} // namespace

int plugin_init(plugin_name_args *names, plugin_gcc_version *compiler) {
    if (strcmp(compiler->basever, gcc_version.basever) != 0) {
        fprintf(stderr, "everbyte: %s was built for GCC %s, and this is GCC %s: install Everbyte again with this compiler (CC, CXX)\n",
                names->full_name, gcc_version.basever, compiler->basever);
        return 1;
    }
    insert_before("*diagnose_tm_blocks", new Refuse(g), names);
    insert_before("tmlower", new Note(g), names);
    insert_before("*tminit", new LookAgain(g), names);
    register_callback(names->base_name, PLUGIN_ALL_IPA_PASSES_START, report_all, NULL);
    return 0;
}
