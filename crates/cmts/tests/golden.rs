//! Every behaviour of the cable gateway as a folder under `tests/golden/cmts`: packets in, packets out, all counters.
//! `WEIR_BLESS=1 cargo test -p cmts --test golden` writes the folders.

/// A test for each case.
macro_rules! for_each_case {
    ($($name:ident)+) => {
        $(
            mod $name {
                #[test]
                fn case() {
                    let group = module_path!().rsplit("::").nth(1).expect("a path has two parts");
                    let case = super::$name().named(group, stringify!($name));
                    testkit::golden::judge::<crate::device::Device>(&crate::golden_cases::root(), &case);
                }
            }
        )+
    };
}

mod device;
mod golden_cases;

#[test]
fn no_folder_is_without_its_case() {
    let known = golden_cases::all();
    let folders = testkit::golden::Folder::all(&golden_cases::root());
    let strays: Vec<_> = folders.iter().filter(|name| !known.iter().any(|case| case.name == **name)).collect();
    assert!(strays.is_empty(), "no case describes {strays:?}");
}
