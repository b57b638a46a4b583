//! Functions that make keys, certificates and password hashes.
//!
//! Each makes something else every time it is called. An Application that is generated with one changes at every
//! look, so they are refused with a sentence instead of being half right.

use crate::functions::{Function, Type, takes_more};

macro_rules! refused {
    ($($name:literal)*) => {
        pub(crate) const FUNCTIONS: &[Function] = &[$(
            takes_more($name, &[], Type::Any, |_, _| Err(concat!(
                $name,
                " is not offered here: it makes something new at every look, and the Application would never come \
                 to rest; keep keys and passwords in a Secret"
            ).into())),
        )*];
    };
}

refused! {
    "bcrypt" "buildCustomCert" "decryptAES" "derivePassword" "encryptAES" "genCA" "genCAWithKey" "genPrivateKey"
    "genSelfSignedCert" "genSelfSignedCertWithKey" "genSignedCert" "genSignedCertWithKey" "htpasswd"
}
