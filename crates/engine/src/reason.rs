//! Names for every way a packet can end without leaving by a port: dropped, or punted to the slow path.
//!
//! Each crate registers its own by [`reasons!`](crate::reasons), numbered behind those of the crates below it; a
//! gateway's [`Kind`](crate::Kind) lists the tables of those it is made of. On the fast path a reason is one byte.

/// Why a packet was dropped. See [`drops`](crate::drops) and the modules of that name in other crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Drop(u8);

/// Why a packet was taken off the pipeline for the worker's own slow path: it is answered, turned into an
/// event, or both. Counted like drops, as they do not come out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Punt(u8);

/// A reason's line in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason<T> {
    /// The reason.
    pub id: T,
    /// Its name in counters, tables and JSON.
    pub name: &'static str,
    /// What it means.
    pub sentence: &'static str,
}

impl<T> Reason<T> {
    /// The name in counters, tables and JSON.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it means, in a sentence.
    pub const fn sentence(&self) -> &'static str {
        self.sentence
    }
}

macro_rules! numbered {
    ($name:ident) => {
        impl $name {
            /// For [`reasons!`](crate::reasons) only.
            #[doc(hidden)]
            pub const fn numbered(number: u8) -> Self {
                Self(number)
            }

            /// Its place among all of a gateway's.
            #[inline(always)]
            pub const fn number(self) -> usize {
                self.0 as usize
            }
        }
    };
}

numbered!(Drop);
numbered!(Punt);

/// Declares a crate's reasons of one kind in a module of their own: a constant each, `ALL`, their table, and `END`, the
/// first number for the crates above.
///
/// ```
/// mod drops {
///     use engine::Drop;
///     engine::reasons! {
///         Drop from engine::drops::END;
///         TOO_OLD "too_old" "The packet waited longer than a second.",
///     }
/// }
/// assert_eq!((drops::ALL.len(), drops::ALL[0].id), (1, drops::TOO_OLD));
/// ```
#[macro_export]
macro_rules! reasons {
    ($kind:ident from $first:expr; $($name:ident $text:literal $sentence:literal,)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Number { $($name,)* }

        $(
            #[doc = $sentence]
            pub const $name: $kind = $kind::numbered($first + Number::$name as u8);
        )*

        /// All that are declared here.
        pub const ALL: &[$crate::Reason<$kind>] =
            &[$($crate::Reason { id: $name, name: $text, sentence: $sentence },)*];

        /// The first number for those declared elsewhere.
        pub const END: u8 = $first + ALL.len() as u8;
    };
}
