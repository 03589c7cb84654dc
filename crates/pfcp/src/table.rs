//! The tables of the standard, as Rust: what the grouped IEs and the messages consist of.
//!
//! A line is `field: Type = presence`, in the order things are sent:
//!
//! - `Type` is an [`Element`](crate::Element), `[Type]` any number of them; `as 78` gives it another type number;
//! - `M` is mandatory, `C` conditional, `O` optional. A mandatory field is the type itself, others an `Option`, repeated
//!   ones a `Vec`;
//! - `C when |this| …` names the condition, if the group alone can tell: then the IE has to be there.
//!
//! From that come the struct, reading and writing, and the check for what is missing. IEs that are not in the table end
//! up in `others`, and are sent behind the rest.

macro_rules! table {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $kind:tt $(as $number:literal)? = $presence:ident $(when $condition:expr)?,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: field_type!($presence $kind),)*
            /// What came besides: unknown IEs, vendors' and those nobody here uses.
            pub others: Vec<$crate::RawIe>,
        }

        impl $name {
            #[allow(unused_mut, reason = "some groups are empty")]
            pub(crate) fn parse_ies(ies: &mut $crate::Reader<'_>) -> Result<$name, $crate::Fault> {
                $(let mut $field: slot_type!($kind) = Default::default();)*
                let mut others = Vec::new();
                while let Some((ie, mut content)) = ies.next_ie()? {
                    match ie {
                        $(type_number!($kind $($number)?) => {
                            $crate::element::Slot::fill(&mut $field, content, is_optional!($presence))?;
                        })*
                        _ => others.push($crate::RawIe { ie, content: content.rest().into() }),
                    }
                }
                let this = $name {
                    $($field: take_field!($presence $kind, $field, type_number!($kind $($number)?)),)*
                    others,
                };
                $(check_condition!(this: $name, $field, type_number!($kind $($number)?) $(, $condition)?);)*
                Ok(this)
            }

            #[allow(unused_variables, reason = "some groups are empty")]
            pub(crate) fn emit_ies(&self, out: &mut Vec<u8>) {
                $(for element in elements!($presence $kind, self.$field) {
                    $crate::element::put_ie(out, type_number!($kind $($number)?), |out| {
                        $crate::Element::emit(element, out);
                    });
                })*
                for other in &self.others {
                    other.emit(out);
                }
            }

            #[cfg(test)]
            pub(crate) fn sample_ies(draw: &mut $crate::tests::Draw) -> $name {
                $name {
                    $($field: sample_field!(draw, $presence $kind $(, $condition)?),)*
                    others: draw.others(),
                }
            }
        }
    };
}

/// Grouped IEs: tables with a type number.
macro_rules! groups {
    ($($(#[$doc:meta])* $name:ident = $number:literal { $($fields:tt)* })*) => {
        $(
            table! { $(#[$doc])* $name { $($fields)* } }

            impl $crate::Element for $name {
                const TYPE: u16 = $number;
                const GROUPED: bool = true;

                fn parse(content: &mut $crate::Reader<'_>) -> Result<$name, $crate::Fault> {
                    $name::parse_ies(content)
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    self.emit_ies(out);
                }

                #[cfg(test)]
                fn sample(draw: &mut $crate::tests::Draw) -> $name {
                    $name::sample_ies(draw)
                }
            }
        )*
    };
}

/// Messages: tables with a type number of their own kind.
macro_rules! messages_of {
    ($($(#[$doc:meta])* $name:ident = $number:literal { $($fields:tt)* })*) => {
        $(
            table! { $(#[$doc])* $name { $($fields)* } }

            impl $name {
                /// The type number (7.3).
                pub const TYPE: u8 = $number;
            }
        )*
    };
}

/// The type of a field.
macro_rules! field_type {
    ($presence:ident [$element:ident]) => { Vec<$element> };
    (M $element:ident) => { $element };
    ($presence:ident $element:ident) => { Option<$element> };
}

/// What a field is collected in.
macro_rules! slot_type {
    ([$element:ident]) => { Vec<$element> };
    ($element:ident) => { Option<$element> };
}

/// The type number of a field's IE.
macro_rules! type_number {
    ($kind:tt $number:literal) => {
        $number
    };
    ([$element:ident]) => {
        <$element as $crate::Element>::TYPE
    };
    ($element:ident) => {
        <$element as $crate::Element>::TYPE
    };
}

macro_rules! is_optional {
    (O) => {
        true
    };
    ($presence:ident) => {
        false
    };
}

/// From what was collected to the field; the mandatory have to be there.
macro_rules! take_field {
    (M [$element:ident], $field:ident, $number:expr) => {
        if $field.is_empty() { return Err($crate::Fault::missing($number)) } else { $field }
    };
    (M $element:ident, $field:ident, $number:expr) => {
        match $field {
            Some(element) => element,
            None => return Err($crate::Fault::missing($number)),
        }
    };
    ($presence:ident $kind:tt, $field:ident, $number:expr) => {
        $field
    };
}

/// Where a condition holds, the field has to be there.
macro_rules! check_condition {
    ($this:ident: $group:ident, $field:ident, $number:expr) => {};
    ($this:ident: $group:ident, $field:ident, $number:expr, $condition:expr) => {
        let has_to_be_there: fn(&$group) -> bool = $condition;
        if $this.$field.iter().next().is_none() && has_to_be_there(&$this) {
            return Err($crate::Fault::missing_conditional($number));
        }
    };
}

/// A field's elements, however many.
macro_rules! elements {
    (M [$element:ident], $field:expr) => {
        $field.iter()
    };
    (M $element:ident, $field:expr) => {
        std::iter::once(&$field)
    };
    ($presence:ident $kind:tt, $field:expr) => {
        $field.iter()
    };
}

/// Any value of a field; where there is a condition, it may hold.
#[cfg(test)]
macro_rules! sample_field {
    ($draw:ident, M [$element:ident]) => {
        $draw.many(1)
    };
    ($draw:ident, M $element:ident) => {
        <$element as $crate::Element>::sample($draw)
    };
    ($draw:ident, $presence:ident [$element:ident], $condition:expr) => {
        $draw.many(1)
    };
    ($draw:ident, $presence:ident $element:ident, $condition:expr) => {
        Some(<$element as $crate::Element>::sample($draw))
    };
    ($draw:ident, $presence:ident [$element:ident]) => {
        $draw.many(0)
    };
    ($draw:ident, $presence:ident $element:ident) => {
        $draw.maybe()
    };
}
