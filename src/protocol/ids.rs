//! The names of clients and of their acquires, and the secrets of acquires.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::names::Names;

/// A client's id: a UUID of version 4 in 32 hex digits. Clients in other languages may have ids of other letters and
/// digits, but of nothing else: a dot ends it in an id and a space in a push.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(Arc<str>);

impl ClientId {
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4().simple().to_string().into())
    }

    pub(crate) fn new(name: &str) -> Option<Self> {
        let fits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        fits.then(|| Self(name.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of an acquire in its client, and of the lease that it leads to: the second half of a [`WireId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u64);

impl Id {
    /// An id of no acquire. Acquires count up, these count down from the highest number.
    pub(crate) fn of_no_acquire(nth: u64) -> Self {
        Self(u64::MAX - nth)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of an acquire as all clients know it: `CLIENT.N`. The scripts refuse ids of another form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WireId(String);

impl WireId {
    pub(crate) fn new(client: &ClientId, id: Id) -> Self {
        Self(format!("{client}.{id}"))
    }

    /// An id that no acquire has, of any client: theirs are longer.
    pub(crate) fn of_nobody() -> Self {
        Self("nobody.0".into())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (client, number) = text.split_once('.')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && ClientId::new(client).is_some()).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_of(&self, client: &ClientId) -> bool {
        self.number_at(client).is_some()
    }

    /// The number in this id, if it is one of this client's.
    pub(crate) fn number_at(&self, client: &ClientId) -> Option<Id> {
        let number = self.0.strip_prefix(client.as_str())?.strip_prefix('.')?;
        number.parse().ok().map(Id)
    }
}

/// Random bytes that an acquire names, and that the messages about it repeat. No other client can guess them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Secret(Arc<str>);

impl Secret {
    pub(crate) fn random(names: &Names) -> Self {
        Self(names.next().into())
    }

    /// As a message repeats it.
    pub(crate) fn repeated(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Log records must not tell it.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_client_knows_its_own_ids() {
        let client = ClientId::new("client").unwrap();
        let id = WireId::new(&client, Id(7));
        assert_eq!(id.as_str(), "client.7");
        assert_eq!(WireId::parse("client.7"), Some(id.clone()));
        assert_eq!(id.number_at(&client), Some(Id(7)));
        assert!(id.is_of(&client) && !WireId::parse("other.7").unwrap().is_of(&client));
        assert_eq!(client.to_string(), "client");
        for other in ["clients.7", "clien.7", "other.7", "client.99999999999999999999"] {
            assert_eq!(WireId::parse(other).unwrap().number_at(&client), None, "{other:?}");
        }
    }

    #[test]
    fn a_client_has_a_uuid() {
        let [one, other] = [ClientId::random(), ClientId::random()];
        assert!(one != other && one.as_str().len() == 32, "{one}");
        assert_eq!(Uuid::parse_str(one.as_str()).unwrap().get_version_num(), 4, "{one}");
    }

    #[test]
    fn a_malformed_id_is_no_id() {
        for text in ["", ".", "client", "client.", ".7", "client.x", "client.+7", "client.7.8", "a b.7", "a{b}.7"] {
            assert_eq!(WireId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn ids_of_no_acquire_are_all_different() {
        let nobody = [0, 1, 2, 3].map(Id::of_no_acquire);
        assert!(nobody.windows(2).all(|pair| pair[1].0 + 1 == pair[0].0), "{nobody:?}");
    }

    #[test]
    fn a_secret_is_sent_and_not_shown() {
        let secret = Secret::repeated("s3cret");
        assert_eq!((secret.as_str(), &*format!("{secret:?}")), ("s3cret", "Secret"));
    }
}
