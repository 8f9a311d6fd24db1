//! Which files and crates may use each other, how long a file may be, and how few files a block has.
//!
//! A file depends on another when it names something that the other defines. A name that a module
//! re-exports (`pub use`) counts as the file that defines it, so that a crate may have a front
//! page. Unit tests may look anywhere inside their crate and are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};
use topology::Block;

/// No file is longer than this.
const MOST_LINES: usize = 600;

/// Cycles that are allowed, because their files are one object: crate, the folder of its files,
/// why.
const ONE_OBJECT: [(&str, &str, &str); 5] = [
    (
        "executor",
        "executor/",
        "`impl Executor` has a file for each task; its state is outside of the cycle, in parts/",
    ),
    (
        "net-packet",
        "backend/",
        "`impl Packets` has a file for each task; what it is made of is outside of the cycle",
    ),
    (
        "net-flit",
        "garnet/",
        "`impl Garnet` has a file for each task; its state is outside of the cycle, in state.rs",
    ),
    ("net-flit", "input_queued/", "`impl InputQueued` likewise"),
    ("py", "program/", "a program plays a script, and a script adds to a program"),
];

type Module = Vec<String>;

/// The source of a crate, file by file, without comments and tests.
struct Crate {
    files: BTreeMap<Module, String>,
    /// What a module re-exports: the name, and the module that defines it.
    exports: BTreeMap<Module, BTreeMap<String, Module>>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    for path in entries {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The simulator's crates.
fn crates() -> Vec<(String, PathBuf)> {
    crates_in(&["crates"])
}

/// The crates of all packages.
fn all_crates() -> Vec<(String, PathBuf)> {
    crates_in(&["crates", "train/crates", "lab/crates"])
}

fn crates_in(folders: &[&str]) -> Vec<(String, PathBuf)> {
    let entries = folders.iter().flat_map(|folder| read_dir(root().join(folder)).unwrap());
    let folders = entries.map(|entry| entry.unwrap().path());
    let named = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), path);
    let mut found: Vec<_> = folders.filter(|path| path.is_dir()).map(named).collect();
    found.sort();
    found
}

/// The statements of a file: without comments, and up to its unit tests.
fn code(text: &str) -> String {
    let end = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths of one `use`: `a::{b, c::{d, e}}` is three.
fn paths(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or("").trim();
        return vec![path.trim_end_matches("::").to_string()];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in inside.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(letter),
        }
    }
    let whole = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    whole.flat_map(|part| paths(&format!("{}{part}", before.trim()))).collect()
}

/// The `use` statements of a file: whether it exports them, and their paths.
fn uses(code: &str) -> Vec<(bool, Vec<String>)> {
    let mut found = Vec::new();
    for statement in code.split(';') {
        let Some(at) = statement.rfind("use ") else { continue };
        let line = statement[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = statement[line..at].trim();
        if before.is_empty() || before.starts_with("pub") {
            let tree = statement[at + 4..].split_whitespace().collect::<Vec<_>>().join(" ");
            found.push((!before.is_empty(), paths(&tree)));
        }
    }
    found
}

/// Paths such as `crate::a::B` in the middle of code.
fn inline(code: &str) -> Vec<String> {
    let word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let whole = code.split(|letter| !word(letter)).filter(|path| path.contains("::"));
    whole.map(str::to_string).collect()
}

impl Crate {
    fn read(folder: &Path) -> Crate {
        let src = folder.join("src");
        let mut files = BTreeMap::new();
        for path in sources(&src) {
            let inside = path.strip_prefix(&src).unwrap().with_extension("");
            let mut module: Module =
                inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.last().is_some_and(|last| last == "mod" || last == "lib") {
                module.pop();
            }
            if !module.last().is_some_and(|last| last.ends_with("tests")) {
                files.insert(module, code(&read_to_string(path).unwrap()));
            }
        }
        let mut found = Crate { files, exports: BTreeMap::new() };
        // A re-export of a re-export needs another look.
        for _ in 0..3 {
            found.learn();
        }
        found
    }

    fn learn(&mut self) {
        let mut exports = self.exports.clone();
        for (module, code) in &self.files {
            for path in uses(code).into_iter().filter(|(public, _)| *public).flat_map(|(_, p)| p) {
                if let Some(target) = self.resolve(module, &path).filter(|target| target != module)
                {
                    let name = path.rsplit("::").next().unwrap_or("").to_string();
                    exports.entry(module.clone()).or_default().insert(name, target);
                }
            }
        }
        self.exports = exports;
    }

    /// The module that defines `path`, as `from` names it; `None` for what is in another crate.
    fn resolve(&self, from: &Module, path: &str) -> Option<Module> {
        let mut names = path.split("::").peekable();
        let child = |name: &str| [from.as_slice(), &[name.to_string()]].concat();
        let mut at: Module = match *names.peek()? {
            "crate" => Vec::new(),
            "super" | "self" => from.clone(),
            name if self.files.contains_key(&child(name)) => from.clone(),
            _ => return None,
        };
        while let Some(name) = names.next_if(|&name| matches!(name, "crate" | "super" | "self")) {
            if name == "super" {
                at.pop();
            }
        }
        for name in names {
            let below = [at.as_slice(), &[name.to_string()]].concat();
            let exported = self.exports.get(&at).and_then(|names| names.get(name));
            match exported {
                _ if self.files.contains_key(&below) => at = below,
                Some(target) => at = target.clone(),
                None => break,
            }
        }
        Some(at)
    }

    /// Which modules each module names something of.
    fn graph(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let named = |(module, code): (_, &String)| {
            let private = uses(code).into_iter().filter(|(public, _)| !*public);
            let used = private.flat_map(|(_, paths)| paths).chain(inline(&without_uses(code)));
            let targets = used.filter_map(|path| self.resolve(module, &path));
            (module, targets.filter(|target| target != module).collect())
        };
        self.files.iter().map(named).collect()
    }
}

fn without_uses(code: &str) -> String {
    let statements = code.split_inclusive(';');
    let others = statements.filter(|statement| uses(statement).is_empty());
    others.collect()
}

/// Files that can be reached from themselves, each set of them once.
fn cycles(graph: &BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.clone()];
        while let Some(next) = open.pop().and_then(|module| graph.get(&module)) {
            open.extend(next.iter().filter(|module| seen.insert((*module).clone())).cloned());
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> =
        graph.keys().map(|&module| (module, reached(module))).collect();
    let mutual = |module: &Module| {
        let back = |other: &&Module| all.get(other).is_some_and(|seen| seen.contains(module));
        all[module].iter().filter(back).cloned().collect::<BTreeSet<Module>>()
    };
    all.iter().filter(|(module, seen)| seen.contains(**module)).map(|(m, _)| mutual(m)).collect()
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    for (name, folder) in all_crates() {
        let source = Crate::read(&folder);
        for cycle in cycles(&source.graph()) {
            let inside = |folder: &str| {
                cycle.iter().all(|module| format!("{}/", module.join("/")).starts_with(folder))
            };
            let files: Vec<String> = cycle.iter().map(|module| module.join("/")).collect();
            let allowed =
                |&(other, folder, _): &(&str, &str, &str)| name == other && inside(folder);
            if !ONE_OBJECT.iter().any(allowed) {
                found.push(format!("{name}: {}", files.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "files that use each other:\n{}", found.join("\n"));
}

#[test]
fn a_cycle_of_files_is_found_through_a_re_export() {
    let text = |pairs: [(&str, &str); 3]| {
        let module = |name: &str| if name.is_empty() { vec![] } else { vec![name.to_string()] };
        pairs.map(|(name, code)| (module(name), code.to_string())).into()
    };
    let files = text([
        ("", "mod a; mod b; pub use a::{A, Other}; pub use b::B;"),
        ("a", "use crate::B; fn f(b: &B) -> std::io::Result<A> {}"),
        ("b", "fn g(a: crate::A) {}"),
    ]);
    let mut source = Crate { files, exports: BTreeMap::new() };
    source.learn();
    let cycle = BTreeSet::from([vec!["a".to_string()], vec!["b".to_string()]]);
    assert_eq!(cycles(&source.graph()), BTreeSet::from([cycle]));
}

/// The lines of ARCHITECTURE.md that list for each crate the crates it stands on.
fn written() -> BTreeMap<String, BTreeSet<String>> {
    let text = read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = text.split("crate           stands on\n").nth(1).expect("a table of arrows");
    let row = |line: &str| {
        let mut names = line.split([' ', ',']).filter(|name| !name.is_empty()).map(String::from);
        Some((names.next()?, names.collect()))
    };
    table.lines().take_while(|line| *line != "```").filter_map(row).collect()
}

#[test]
fn crates_stand_on_those_that_the_architecture_says() {
    let all: BTreeSet<String> = all_crates().into_iter().map(|(name, _)| name).collect();
    let stands_on = |(name, folder): (String, PathBuf)| {
        let manifest = read_to_string(folder.join("Cargo.toml")).unwrap();
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or("");
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let named = lines.filter_map(|line| Some(line.split_once(" = ")?.0.to_string()));
        (name, named.filter(|dependency| all.contains(dependency)).collect())
    };
    let found: BTreeMap<String, BTreeSet<String>> =
        all_crates().into_iter().map(stands_on).collect();
    assert_eq!(found, written(), "Cargo.toml (left) and ARCHITECTURE.md (right)");
}

#[test]
fn the_simulator_stands_on_no_crate_of_another_house() {
    let others = ["train/crates", "lab/crates"].map(|house| format!("path = \"{house}/"));
    let workspace = read_to_string(root().join("Cargo.toml")).unwrap();
    let of_others = workspace.lines().filter(|line| others.iter().any(|path| line.contains(path)));
    let of_others: Vec<&str> = of_others.filter_map(|line| line.split(' ').next()).collect();
    assert!(of_others.contains(&"embedding") && of_others.contains(&"peers"));
    for (name, folder) in crates() {
        let manifest = read_to_string(folder.join("Cargo.toml")).unwrap();
        for line in manifest.lines() {
            let dependency = line.split([' ', '.']).next().unwrap_or("");
            assert!(!of_others.contains(&dependency), "{name} stands on {dependency}");
        }
    }
}

#[test]
fn no_file_is_too_long() {
    let folders = ["crates", "train", "lab", "fuzz"].map(|folder| root().join(folder));
    let lines = |path: PathBuf| {
        let lines = read_to_string(&path).unwrap().lines().count();
        (lines > MOST_LINES).then(|| format!("{}: {lines} lines", path.display()))
    };
    let long: Vec<String> =
        folders.iter().flat_map(|folder| sources(folder)).filter_map(lines).collect();
    assert!(long.is_empty(), "more than {MOST_LINES} lines:\n{}", long.join("\n"));
}

/// What a new block needs: its file, and one line of the table in `block/mod.rs`.
#[test]
fn only_its_own_file_and_the_table_name_a_block() {
    // ASTRA-sim's files know three blocks, however many there are.
    const ALLOWED: [&str; 3] = [
        "topology/src/block/",
        "platform/src/config/astra_sim/network.rs",
        "platform/src/config/astra_sim/one/dim.rs",
    ];
    let names: Vec<String> = Block::ALL.iter().map(|block| format!("Block::{block:?}")).collect();
    let named = |path: PathBuf| {
        let place = path.strip_prefix(root().join("crates")).unwrap().display().to_string();
        let is_test =
            path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
        let text = code(&read_to_string(&path).unwrap());
        let found = names.iter().any(|name| text.contains(name.as_str()));
        let allowed = is_test || ALLOWED.iter().any(|allowed| place.starts_with(allowed));
        (found && !allowed).then_some(place)
    };
    let all = crates().into_iter().flat_map(|(_, folder)| sources(&folder.join("src")));
    assert_eq!(all.filter_map(named).collect::<Vec<_>>(), Vec::<String>::new());
    for block in Block::ALL {
        let letters = block.name().char_indices().map(|(at, letter)| {
            let before = if at > 0 && letter.is_uppercase() { "_" } else { "" };
            format!("{before}{}", letter.to_lowercase())
        });
        let file = format!("crates/topology/src/block/{}.rs", letters.collect::<String>());
        assert!(root().join(&file).is_file(), "{block:?} has no file {file}");
    }
}

/// Cargo builds `tests/main.rs` alone where a crate has one; a file that it doesn't name never runs.
#[test]
fn programs_of_tests_have_every_file() {
    let mut programs = 0;
    for (name, folder) in all_crates() {
        let Ok(main) = read_to_string(folder.join("tests/main.rs")) else { continue };
        programs += 1;
        let named = |line: &str| Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_string());
        let mut named: BTreeSet<_> = main.lines().filter_map(named).collect();
        named.insert("main".to_string());
        for entry in read_dir(folder.join("tests")).unwrap().map(|entry| entry.unwrap().path()) {
            let stem = entry.file_stem().unwrap().to_string_lossy().into_owned();
            let is_test = entry.extension().is_some_and(|extension| extension == "rs");
            assert!(!is_test || named.contains(&stem), "{name}: tests/main.rs lacks `mod {stem};`");
        }
    }
    assert!(programs > 4);
}

/// Words with which a file is opened or read to its end, however long it may be.
const READS: [&str; 5] =
    ["fs::read(", "read_to_string(", "read_to_end(", "File::open(", "OpenOptions"];

/// Where files are opened or read otherwise, and why it is safe.
const READ_ELSEWHERE: [(&str, &str); 7] = [
    ("files/src/lib.rs", "the reader itself"),
    ("embedding/src/cache/disk.rs", "blocks of a cache that this process writes"),
    ("embedding/src/cache/folder.rs", "a directory, to write it to the disk"),
    ("net-external/src/memory.rs", "new memory that a simulator shares"),
    ("trace/src/text/mod.rs", "the first 4 KiB of a file"),
    ("trace/src/chakra/find.rs", "the first 512 bytes of a file"),
    ("trace/src/chakra/source.rs", "blocks of a trace, through `take`"),
];

#[test]
fn files_are_opened_by_the_bounded_reader_alone() {
    let reads = |path: PathBuf| {
        let house = path.ancestors().find(|folder| folder.ends_with("crates")).unwrap();
        let place = path.strip_prefix(house).unwrap().display().to_string();
        let is_test = place.ends_with("tests.rs");
        let text = code(&read_to_string(&path).unwrap());
        let found = READS.iter().any(|word| text.contains(word));
        let allowed = is_test || READ_ELSEWHERE.iter().any(|(allowed, _)| place == *allowed);
        (found && !allowed).then_some(place)
    };
    // `generate` is a program for this repository, and reads only its files.
    let all = all_crates().into_iter().filter(|(name, _)| name != "generate");
    let all = all.flat_map(|(_, folder)| sources(&folder.join("src")));
    let outside = |path: &PathBuf| !path.components().any(|part| part.as_os_str() == "tests");
    assert_eq!(all.filter(outside).filter_map(reads).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn partial_readers_read_a_part() {
    let partial = READ_ELSEWHERE.iter().filter(|(place, _)| place.starts_with("trace/"));
    for (place, _) in partial {
        let text = code(&read_to_string(root().join("crates").join(place)).unwrap());
        let all = text.lines().filter(|line| line.contains("read_to_end("));
        for line in all {
            assert!(line.contains("take("), "{place} reads without an end: {line}");
        }
        assert!(!text.contains("File::open("), "{place} opens files itself");
    }
}

#[test]
fn unsafe_code_is_where_the_security_page_says() {
    let page = read_to_string(root().join("SECURITY.md")).unwrap();
    let table = page.split("| crate | what `unsafe` is for |").nth(1).expect("a table of crates");
    let row = |line: &str| Some(line.trim().strip_prefix("| `")?.split('`').next()?.to_string());
    let said: BTreeSet<String> = table
        .lines()
        .skip(2)
        .map_while(|line| line.trim().starts_with('|').then(|| row(line)))
        .flatten()
        .collect();
    let allows = |folder: &Path| {
        let texts = sources(folder).into_iter().map(|path| read_to_string(path).unwrap());
        texts.filter(|text| text.contains("(unsafe_code)")).count() > 0
    };
    // This file names the attribute.
    let found = all_crates().into_iter().filter(|(name, folder)| {
        name != "sim" && (allows(&folder.join("src")) || allows(&folder.join("tests")))
    });
    let found: BTreeSet<String> = found
        .map(|(_, folder)| folder.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, said, "crates that allow `unsafe` (left) and SECURITY.md (right)");
    let manifest = read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"deny\""));
}
