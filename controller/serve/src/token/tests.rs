use super::*;
use serde_json::json;

const ONE: &[u8] = include_bytes!("one.pem");
const ONE_PUBLIC: &[u8] = include_bytes!("one.pub.pem");
const OTHER: &[u8] = include_bytes!("other.pem");
const OTHER_PUBLIC: &[u8] = include_bytes!("other.pub.pem");

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn after(seconds: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() + seconds).unwrap()
}

fn pair() -> Pair {
    Pair::read(ONE).unwrap()
}

fn keys() -> Vec<PublicKey> {
    public_keys(ONE_PUBLIC).unwrap()
}

/// A token of parts that our programs never write, signed by the right key.
fn signed(header: &str, claims: &Value) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let signed = format!("{}.{}", part(header), part(&claims.to_string()));
    let signature = pair().sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn claims() -> Value {
    serde_json::to_value(Claims::upload("n", "disk", now())).unwrap()
}

#[test]
fn a_token_has_the_claims_of_cdi() {
    assert_eq!(
        claims(),
        json!({
            "iss": "cdi-apiserver", "iat": 1_700_000_000, "nbf": 1_700_000_000, "exp": 1_700_000_300,
            "operation": "Upload", "name": "disk", "namespace": "n",
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"}, "params": {},
        })
    );
    let token = sign(&pair(), &Claims::upload("n", "disk", now())).unwrap();
    assert_eq!(verify(&keys(), &token, now()), Ok(Claims::upload("n", "disk", now())));
    assert_eq!(verify(&[PublicKey::of(&pair())], &token, now()).unwrap().name, "disk");
    // go-jose writes no `typ`, and null for missing params.
    let mut bare = claims();
    bare["params"] = Value::Null;
    assert!(verify(&keys(), &signed(r#"{"alg":"PS256"}"#, &bare), now()).is_ok());
}

#[test]
fn a_token_has_its_time_and_clocks_may_differ_by_ten_seconds() {
    let token = sign(&pair(), &Claims::upload("n", "disk", now())).unwrap();
    for (seconds, expected) in [
        (-11, Err(TokenError::NotYetValid)),
        (-10, Ok(())),
        (309, Ok(())),
        (310, Err(TokenError::Expired)),
        (100_000, Err(TokenError::Expired)),
    ] {
        assert_eq!(verify(&keys(), &token, after(seconds)).map(drop), expected, "{seconds}");
    }
    for (name, value, expected) in [
        ("nbf", json!(1_700_000_011), TokenError::NotYetValid),
        ("exp", json!(i64::MAX), TokenError::OtherIssuer),
        ("iat", json!(i64::MAX), TokenError::NotYetValid),
        ("exp", json!(i64::MIN), TokenError::Expired),
        ("exp", json!("never"), TokenError::OtherPurpose),
        ("exp", Value::Null, TokenError::OtherPurpose),
    ] {
        let mut claims = claims();
        claims["iss"] = json!("somebody");
        claims[name] = value;
        assert_eq!(verify(&keys(), &signed(HEADER, &claims), now()), Err(expected), "{name}");
    }
}

#[test]
fn no_other_key_and_no_other_bytes() {
    let token = sign(&Pair::read(OTHER).unwrap(), &Claims::upload("n", "disk", now())).unwrap();
    assert_eq!(verify(&keys(), &token, now()), Err(TokenError::BadSignature));
    assert_eq!(verify(&[], &token, now()), Err(TokenError::BadSignature));
    // During a renewal of keys, two are accepted.
    let both = public_keys(&[ONE_PUBLIC, OTHER_PUBLIC].concat()).unwrap();
    assert_eq!(both.len(), 2);
    assert!(verify(&both, &token, now()).is_ok());
    let token = sign(&pair(), &Claims::upload("n", "disk", now())).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let other = URL_SAFE_NO_PAD.encode(claims().to_string().replace("disk", "dusk"));
    let forged = format!("{}.{other}.{}", parts[0], parts[2]);
    assert_eq!(verify(&keys(), &forged, now()), Err(TokenError::BadSignature));
    assert_eq!(verify(&keys(), &format!("{}.{}.", parts[0], parts[1]), now()), Err(TokenError::BadSignature));
    for wrong in [
        String::new(),
        "...".into(),
        "a.b.c".into(),
        format!("{}.{}", parts[0], parts[1]),
        format!("{token}="),
        format!("{token}.{}", parts[2]),
        token.replace('.', " "),
        format!("{token}{}", "A".repeat(LONGEST)),
    ] {
        let refused = verify(&keys(), &wrong, now()).unwrap_err();
        assert!(matches!(refused, TokenError::Malformed | TokenError::BadSignature), "{wrong}: {refused:?}");
    }
}

/// The header of a token cannot choose the algorithm: neither "no signature", nor an HMAC with the public key
/// as its secret, nor a key of its own.
#[test]
fn the_header_chooses_no_algorithm_and_no_key() {
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"NONE"}"#,
        r#"{"alg":"HS256"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"PS512"}"#,
        r#"{"alg":"ps256"}"#,
        r#"{"alg":"PS256","alg":"none"}"#,
        r#"{"alg":"PS256","crit":["exp"]}"#,
        r#"{"alg":["PS256"]}"#,
        r#"{"typ":"JWT"}"#,
        "[]",
        "",
    ] {
        assert_eq!(
            verify(&keys(), &signed(header, &claims()), now()),
            Err(TokenError::Malformed),
            "{header}"
        );
    }
    let body = URL_SAFE_NO_PAD.encode(claims().to_string());
    // An HMAC with the public key, as a confused verifier would accept it.
    let hmac = |header: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, ONE_PUBLIC);
        let signed = format!("{}.{body}", URL_SAFE_NO_PAD.encode(header));
        let tag = ring::hmac::sign(&key, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
    };
    assert_eq!(verify(&keys(), &hmac(r#"{"alg":"HS256"}"#), now()), Err(TokenError::Malformed));
    assert_eq!(verify(&keys(), &hmac(r#"{"alg":"PS256"}"#), now()), Err(TokenError::BadSignature));
    let unsigned = format!("{}.{body}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
    assert_eq!(verify(&keys(), &unsigned, now()), Err(TokenError::Malformed));
    // A key in the header is ignored.
    let with_key = r#"{"alg":"PS256","jwk":{"kty":"RSA"},"kid":"../../x"}"#;
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let signed = format!("{}.{body}", part(with_key));
    let signature = Pair::read(OTHER).unwrap().sign(signed.as_bytes()).unwrap();
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    assert_eq!(verify(&keys(), &token, now()), Err(TokenError::BadSignature));
}

#[test]
fn a_token_for_something_else_opens_no_upload() {
    for (path, value) in [
        ("/operation", json!("Clone")),
        ("/operation", json!("upload")),
        ("/resource/resource", json!("datavolumes")),
        ("/resource/group", json!("cdi.kubevirt.io")),
        ("/resource/version", json!("v2")),
        ("/name", json!("")),
        ("/name", json!("../secrets/a")),
        ("/name", json!("a?watch=true")),
        ("/namespace", json!("")),
        ("/namespace", json!("n/pods")),
    ] {
        let mut claims = claims();
        *claims.pointer_mut(path).unwrap() = value;
        let is = verify(&keys(), &signed(HEADER, &claims), now());
        assert_eq!(is, Err(TokenError::OtherPurpose), "{path}: {claims}");
    }
    let mut extended = claims();
    extended["iss"] = json!("cdi-deployment");
    assert_eq!(verify(&keys(), &signed(HEADER, &extended), now()), Err(TokenError::OtherIssuer));
}

#[test]
fn what_is_no_key_of_rsa_is_not_taken() {
    let verifier = Verifier::default();
    assert!(!verifier.is_known());
    verifier.take(ONE_PUBLIC).unwrap();
    let certificate = rcgen::KeyPair::generate().unwrap();
    for wrong in [
        &b""[..],
        b"-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n",
        ONE,
        certificate.public_key_pem().as_bytes(),
        &ONE_PUBLIC.repeat(9),
    ] {
        assert!(verifier.take(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
    }
    assert!(verifier.is_known(), "what was taken before stays");
    let signer = Signer::default();
    assert!(signer.upload("n", "disk", now()).unwrap().is_none());
    assert!(signer.take(ONE_PUBLIC).is_err() && signer.take(certificate.serialize_pem().as_bytes()).is_err());
    signer.take(ONE).unwrap();
    let token = signer.upload("n", "disk", now()).unwrap().unwrap();
    assert_eq!(verifier.verify(&token, now()).map(|claims| claims.namespace), Ok("n".to_owned()));
    assert!(verifier.take(OTHER_PUBLIC).is_ok());
    assert_eq!(
        verifier.verify(&token, now()),
        Err(TokenError::BadSignature),
        "the key before is believed no more"
    );
}

proptest::proptest! {
    /// Arbitrary bytes from the network are refused without a panic.
    #[test]
    fn no_words_of_strangers_are_a_token(text in "[A-Za-z0-9_.=-]{0,200}|.{0,60}") {
        proptest::prop_assert!(verify(&keys(), &text, now()).is_err());
    }

    /// Changed bytes of a valid token, or of a key, are refused too.
    #[test]
    fn no_changed_byte_is_taken(at in 0_usize..2000, byte in 0_u8..=255) {
        let mut token = sign(&pair(), &Claims::upload("n", "disk", now())).unwrap().into_bytes();
        let at_token = at % token.len();
        if token[at_token] != byte {
            token[at_token] = byte;
            let text = String::from_utf8_lossy(&token);
            proptest::prop_assert!(verify(&keys(), &text, now()).is_err());
        }
        let mut key = ONE_PUBLIC.to_vec();
        let at_key = at % key.len();
        key[at_key] = byte;
        // The changed text may still be a key or not: nothing panics.
        if let Ok(keys) = public_keys(&key) {
            let _ = verify(&keys, "a.b.c", now());
        }
    }
}
