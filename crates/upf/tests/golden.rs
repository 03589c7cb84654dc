//! Every behaviour of the user plane as a folder under `tests/golden/upf`: packets in, packets out, all counters.
//! `WEIR_BLESS=1 cargo test -p upf --test golden` writes the folders.

mod device;
#[macro_use]
mod golden_cases;

use golden_cases as cases;

#[test]
fn no_folder_is_without_its_case() {
    let known = cases::all();
    let folders = testkit::golden::Folder::all(&cases::root());
    let strays: Vec<_> = folders.iter().filter(|name| !known.iter().any(|case| case.name == **name)).collect();
    assert!(strays.is_empty(), "no case describes {strays:?}");
}
