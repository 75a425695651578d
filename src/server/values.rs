//! Values as the redis crate reads them, for tests that compare both or talk to a server by the library.

/// A value of the redis crate, as fairlock reads it from the wire.
impl From<&redis::Value> for super::resp::Value<'static> {
    fn from(value: &redis::Value) -> Self {
        let text = |text: &[u8]| Self::Text(text.to_owned().into());
        let pairs = |pairs: &[(redis::Value, redis::Value)]| {
            Self::List(pairs.iter().flat_map(|(key, value)| [key.into(), value.into()]).collect())
        };
        match value {
            redis::Value::Nil => Self::Nil,
            redis::Value::Int(number) => Self::Int(*number),
            redis::Value::Boolean(truth) => Self::Int((*truth).into()),
            redis::Value::BulkString(bytes) => text(bytes),
            redis::Value::SimpleString(said) | redis::Value::VerbatimString { text: said, .. } => text(said.as_bytes()),
            redis::Value::Okay => text(b"OK"),
            redis::Value::Double(number) => text(number.to_string().as_bytes()),
            redis::Value::BigNumber(number) => text(number),
            redis::Value::Array(items) | redis::Value::Set(items) => Self::List(items.iter().map(Self::from).collect()),
            redis::Value::Map(items) => pairs(items),
            redis::Value::Attribute { data, .. } => (&**data).into(),
            redis::Value::Push { kind, data } => {
                Self::Push([text(kind.to_string().as_bytes())].into_iter().chain(data.iter().map(Self::from)).collect())
            }
            redis::Value::ServerError(error) => {
                let words = [Some(error.code()), error.details()];
                let words: Vec<&str> = words.into_iter().flatten().collect();
                Self::Error(words.join(" ").into_bytes().into())
            }
            other => unreachable!("a value of an unknown kind: {other:?}"),
        }
    }
}
