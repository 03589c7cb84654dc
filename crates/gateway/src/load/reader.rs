//! From a TOML tree to typed configuration, with errors that are values: what is wrong, where, what is allowed.

use std::ops::Range;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::mistake::{Mistake, Problem};
use super::renamed::{self, Rename};

/// Values of a tree, read once.
pub struct Reader {
    /// Former names of keys that were used, each where it stands.
    pub renamed: std::cell::RefCell<Vec<Renamed>>,
    /// Keys of the reader's own sections that have a new name.
    own: &'static [Rename],
}

/// A former name of a key, and where it stands.
pub type Renamed = (Range<usize>, &'static Rename);

impl Reader {
    /// What the tree says, when every key is known and of the right type; and the former names it uses.
    pub fn read<T: de::DeserializeOwned>(
        tree: &Spanned<DeTable<'_>>,
        own: &'static [Rename],
    ) -> Result<(T, Vec<Renamed>), Mistake> {
        let reader = Self { renamed: Vec::new().into(), own };
        let root = Table { table: tree.get_ref(), span: tree.span(), reader: &reader };
        let value = T::deserialize(root)?;
        Ok((value, reader.renamed.take()))
    }
}

/// A section of the file that is being read.
#[derive(Clone)]
struct Table<'t, 'i> {
    table: &'t DeTable<'i>,
    span: Range<usize>,
    reader: &'t Reader,
}

/// A value, or a section that is one.
struct Value<'t, 'i> {
    value: &'t Spanned<DeValue<'i>>,
    reader: &'t Reader,
}

impl<'t, 'i> Table<'t, 'i> {
    fn entries(&self, owner: &'static str) -> Entries<'t, 'i> {
        let mut pairs: Vec<_> = self.table.iter().collect();
        // In the order of the text, so that the first mistake is the one reported.
        pairs.sort_by_key(|(key, _)| key.span().start);
        Entries { pairs: pairs.into_iter(), next: None, owner, reader: self.reader }
    }
}

impl<'de> Deserializer<'de> for Table<'_, '_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_map(self.entries("")).map_err(|error| error.at(&self.span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_map(self.entries(name)).map_err(|error| error.at(&self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let entries = MapAccessDeserializer::new(self.entries(""));
        visitor.visit_enum(entries).map_err(|error| error.at(&self.span))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl<'t, 'i> Value<'t, 'i> {
    fn table(&self) -> Option<Table<'t, 'i>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(Table { table, span: self.value.span(), reader: self.reader }),
            _ => None,
        }
    }

    fn elements(&self) -> Option<Elements<'t, 'i>> {
        match self.value.get_ref() {
            DeValue::Array(list) => Some(Elements { list: list.iter(), reader: self.reader }),
            _ => None,
        }
    }

    /// The error for a value of the wrong kind.
    fn misfit(&self, allowed: impl Into<String>) -> Mistake {
        let found = match self.value.get_ref() {
            DeValue::String(text) => format!("the text \"{text}\""),
            DeValue::Integer(number) => format!("the number {}", shown(number)),
            DeValue::Float(number) => format!("the number {}", number.as_str()),
            DeValue::Boolean(value) => format!("the value {value}"),
            DeValue::Datetime(date) => format!("the date {date}"),
            DeValue::Array(list) if list.iter().all(|value| matches!(value.get_ref(), DeValue::Table(_))) => {
                "a list of sections".to_owned()
            }
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a section".to_owned(),
        };
        Mistake::new(Problem::Misfit { found, allowed: allowed.into() }).at(&self.value.span())
    }

    fn integer<T: TryFrom<i128>>(&self, least: i128, most: i128) -> Result<T, Mistake> {
        let allowed = || format!("a whole number from {least} to {most}");
        let DeValue::Integer(number) = self.value.get_ref() else { return Err(self.misfit(allowed())) };
        let read = i128::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok();
        let inside = read.filter(|value| (least..=most).contains(value)).and_then(|value| T::try_from(value).ok());
        inside.ok_or_else(|| self.misfit(allowed()))
    }

    /// What a visitor says of a value that it was given.
    fn judged<T>(&self, result: Result<T, Mistake>, expected: &str) -> Result<T, Mistake> {
        let given = match self.value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            _ => "",
        };
        result.map_err(|error| error.of(given, expected).at(&self.value.span()))
    }
}

fn shown(number: &DeInteger<'_>) -> String {
    match number.radix() {
        16 => format!("0x{}", number.as_str()),
        8 => format!("0o{}", number.as_str()),
        2 => format!("0b{}", number.as_str()),
        _ => number.as_str().to_owned(),
    }
}

/// What a visitor expects, in serde's words: only shown, never interpreted.
fn expecting<'de, V: Visitor<'de>>(visitor: &V) -> String {
    (visitor as &dyn Expected).to_string()
}

const LIST: &str = "a list in square brackets; sections that repeat have a header in double ones: [[port]]";
const SECTION: &str = "a section, or { key = value } in braces; the header of a section that does not repeat is in single brackets: [section]";

macro_rules! integers {
    ($($method:ident $visit:ident $type:ty),+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            let value: $type = self.integer(<$type>::MIN.into(), <$type>::MAX.into())?;
            let expected = expecting(&visitor);
            self.judged(visitor.$visit(value), &expected)
        }
    )+};
}

impl<'de> Deserializer<'de> for Value<'_, '_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let expected = expecting(&visitor);
        let result = match self.value.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(_) => visitor.visit_i64(self.integer(i64::MIN.into(), i64::MAX.into())?),
            DeValue::Float(number) => match number.as_str().replace('_', "").parse::<f64>() {
                Ok(number) => visitor.visit_f64(number),
                Err(_) => Err(self.misfit("a number")),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(date) => visitor.visit_string(date.to_string()),
            DeValue::Array(list) => visitor.visit_seq(Elements { list: list.iter(), reader: self.reader }),
            DeValue::Table(table) => {
                let table = Table { table, span: self.value.span(), reader: self.reader };
                visitor.visit_map(table.entries(""))
            }
        };
        self.judged(result, &expected)
    }

    integers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            _ => Err(self.misfit("true or false")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => self.deserialize_any(visitor),
            _ => Err(self.misfit("a number")),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let DeValue::String(text) = self.value.get_ref() else { return Err(self.misfit("text in double quotes")) };
        let expected = expecting(&visitor);
        self.judged(visitor.visit_str(text), &expected)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let Some(elements) = self.elements() else { return Err(self.misfit(LIST)) };
        let expected = expecting(&visitor);
        self.judged(visitor.visit_seq(elements), &expected)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Mistake> {
        match self.elements() {
            Some(elements) if elements.list.len() == len => {
                let expected = expecting(&visitor);
                self.judged(visitor.visit_seq(elements), &expected)
            }
            _ => Err(self.misfit(format!("a list of {len} values in square brackets"))),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.table().ok_or_else(|| self.misfit(SECTION))?.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.table().ok_or_else(|| self.misfit(SECTION))?.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match self.value.get_ref() {
            DeValue::String(text) => {
                let text: StrDeserializer<'_, Mistake> = text.as_ref().into_deserializer();
                text.deserialize_enum(name, variants, visitor).map_err(|error| error.at(&self.value.span()))
            }
            DeValue::Table(_) => {
                self.table().ok_or_else(|| self.misfit(SECTION))?.deserialize_enum(name, variants, visitor)
            }
            _ => Err(self.misfit(format!("one of {}", variants.join(", ")))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

/// Keys and values of a section.
struct Entries<'t, 'i> {
    pairs: std::vec::IntoIter<(&'t Spanned<std::borrow::Cow<'i, str>>, &'t Spanned<DeValue<'i>>)>,
    next: Option<&'t Spanned<DeValue<'i>>>,
    /// The type that the section becomes.
    owner: &'static str,
    reader: &'t Reader,
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some((key, value)) = self.pairs.next() else { return Ok(None) };
        self.next = Some(value);
        let mut name: &str = key.get_ref();
        if let Some(rename) = renamed::of(self.owner, name, self.reader.own) {
            self.reader.renamed.borrow_mut().push((key.span(), rename));
            name = rename.new;
        }
        let name: StrDeserializer<'_, Mistake> = name.into_deserializer();
        seed.deserialize(name).map(Some).map_err(|error| error.at(&key.span()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let value = self.next.take().ok_or_else(|| <Mistake as de::Error>::custom("a value before its key"))?;
        seed.deserialize(Value { value, reader: self.reader }).map_err(|error| error.at(&value.span()))
    }
}

/// Elements of a list.
struct Elements<'t, 'i> {
    list: std::slice::Iter<'t, Spanned<DeValue<'i>>>,
    reader: &'t Reader,
}

impl<'de> SeqAccess<'de> for Elements<'_, '_> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        let Some(value) = self.list.next() else { return Ok(None) };
        seed.deserialize(Value { value, reader: self.reader }).map(Some).map_err(|error| error.at(&value.span()))
    }
}
