//! Certificates for the Docker daemons of a published runner's cluster, signed by an authority of the account.
//!
//! The installer sends a request and the names that the daemon is reached by, and gets a zip with the authority's
//! certificate and the daemon's. The authority is made when it is first needed; its key is sealed under the account's.

use std::net::IpAddr;
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use serde::Deserialize;
use slipway_api::error::ErrorBody;
use slipway_model::AccountId;
use slipway_store::authorities::{self, Authority};
use slipway_store::{Scope, StoreError, Tx};
use utoipa::ToSchema;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

const NAMES_MAX: usize = 100;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const AUTHORITY_DAYS: i64 = 20 * 365;
/// Daemons are not asked to renew theirs by anybody: as long as the published platform's.
const SERVER_DAYS: i64 = 10 * 365;

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SignRequest {
    /// As OpenSSL writes it: `IP:127.0.0.1,DNS:dind,DNS:*.dind.NAMESPACE`.
    req_subject_alt_name: String,
    /// PEM.
    csr: String,
}

/// Sign a Docker daemon's certificate. The answer is a zip with `cf-ca.pem` and `cf-server-cert.pem`.
#[utoipa::path(post, path = "/api/custom_clusters/signServerCerts", tag = "runtime-environments", request_body = SignRequest,
    responses((status = 200, body = Vec<u8>, content_type = "application/zip"), (status = 400, body = ErrorBody)))]
pub(crate) async fn sign(
    State(server): State<Server>,
    caller: Caller,
    Json(request): Json<SignRequest>,
) -> Result<Response, ApiError> {
    let names = alternative_names(&request.req_subject_alt_name)?;
    let asked = CertificateSigningRequestParams::from_pem(&request.csr)
        .map_err(|error| ApiError::bad_request(format!("csr is not a valid certificate request: {error}")))?;
    let inner = server.clone();
    let (authority, certificate) = server
        .change(move |tx| {
            let (certificate, key) = authority(&inner, tx, caller.scope().account())?;
            let signed = signed(&certificate, &key, asked, names, inner.now_ms()).map_err(unusable)?;
            let entry = Entry::new("sign", "server-certificate", "dind", &request.req_subject_alt_name);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok((certificate, signed))
        })
        .await?;
    let zip =
        stored_zip(&[("cf-ca.pem", authority.as_bytes()), ("cf-server-cert.pem", certificate.as_bytes())]);
    Ok(([(header::CONTENT_TYPE, "application/zip")], zip).into_response())
}

fn unusable(error: rcgen::Error) -> StoreError {
    StoreError::corrupt(format!("the account's authority cannot sign: {error}"))
}

fn place(account: AccountId) -> String {
    format!("authority/{account}")
}

/// The account's, made now if there is none: certificate and key.
fn authority(server: &Server, tx: &mut Tx<'_>, account: AccountId) -> Result<(String, String), StoreError> {
    let (scope, key) = (Scope::of(account), server.keyring().account(tx, account)?);
    if let Some(kept) = authorities::of(tx, scope)? {
        let opened = key.unseal(&place(account), &kept.sealed_key);
        let opened =
            opened.ok_or_else(|| StoreError::corrupt("cannot decrypt the key of the account's authority"))?;
        return Ok((kept.certificate, opened.expose().clone()));
    }
    let pair = KeyPair::generate().map_err(unusable)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("Slipway account {account}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_for(&mut params, server.now_ms(), AUTHORITY_DAYS);
    let certificate = params.self_signed(&pair).map_err(unusable)?.pem();
    let made = Authority {
        certificate: certificate.clone(),
        sealed_key: key.seal(server.seams(), &place(account), &pair.serialize_pem()),
        created_ms: server.now_ms(),
    };
    authorities::keep(tx, scope, &made)?;
    Ok((certificate, pair.serialize_pem()))
}

fn named(name: &str) -> DistinguishedName {
    let mut whole = DistinguishedName::new();
    whole.push(DnType::CommonName, name);
    whole
}

fn valid_for(params: &mut CertificateParams, now_ms: i64, days: i64) {
    let day = |ms: i64| {
        let date = jiff::Timestamp::from_millisecond(ms)
            .unwrap_or_default()
            .to_zoned(jiff::tz::TimeZone::UTC)
            .date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    // Clocks differ.
    params.not_before = day(now_ms - DAY_MS);
    params.not_after = day(now_ms + days * DAY_MS);
}

/// Of what was asked for, only the public key and the subject's name count: what it may do is said here.
fn signed(
    authority: &str,
    key: &str,
    mut asked: CertificateSigningRequestParams,
    names: Vec<SanType>,
    now_ms: i64,
) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = asked.params.distinguished_name.clone();
    params.subject_alt_names = names;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    valid_for(&mut params, now_ms, SERVER_DAYS);
    asked.params = params;
    let issuer = Issuer::from_ca_cert_pem(authority, KeyPair::from_pem(key)?)?;
    Ok(asked.signed_by(&issuer)?.pem())
}

fn alternative_names(text: &str) -> Result<Vec<SanType>, ApiError> {
    let wrong = |part: &str| {
        ApiError::bad_request(format!(
            "reqSubjectAltName: `{part}` is neither IP:ADDRESS nor DNS:NAME; several are separated by commas"
        ))
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || parts.len() > NAMES_MAX {
        return Err(ApiError::bad_request(format!("reqSubjectAltName has 1 to {NAMES_MAX} names")));
    }
    parts
        .into_iter()
        .map(|part| match part.split_once(':') {
            Some(("IP", address)) => {
                IpAddr::from_str(address.trim()).map(SanType::IpAddress).map_err(|_| wrong(part))
            }
            Some(("DNS", name)) => {
                let letter = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
                let good = !name.is_empty() && name.len() <= 253 && name.chars().all(letter);
                let name = name.try_into().ok().filter(|_| good);
                name.map(SanType::DnsName).ok_or_else(|| wrong(part))
            }
            _ => Err(wrong(part)),
        })
        .collect()
}

/// A zip of small files as they are: the format with nothing in it that can be left out.
fn stored_zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let (length, at) = (small(bytes.len()), small(zip.len()));
        // Version 2.0, no flags, stored, 1 January 1980; then what both kinds of header say.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend(length.to_le_bytes());
        common.extend(length.to_le_bytes());
        common.extend(u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
        common.extend([0, 0]);
        zip.extend(*b"PK\x03\x04");
        zip.extend(&common);
        zip.extend(name.as_bytes());
        zip.extend(*bytes);
        directory.extend(*b"PK\x01\x02");
        // Made by version 2.0 on a system with Unix permissions.
        directory.extend([20, 3]);
        directory.extend(&common);
        // No comment, first disk, plain bytes, a file that its owner and everybody reads.
        directory.extend([0, 0, 0, 0, 0, 0]);
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, length) = (small(zip.len()), small(directory.len()));
    let count = u16::try_from(files.len()).unwrap_or(u16::MAX).to_le_bytes();
    zip.extend(directory);
    zip.extend(*b"PK\x05\x06");
    zip.extend([0, 0, 0, 0]);
    zip.extend(count);
    zip.extend(count);
    zip.extend(length.to_le_bytes());
    zip.extend(at.to_le_bytes());
    zip.extend([0, 0]);
    zip
}

fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_openssl_writes_them_and_others_are_refused_by_name() {
        assert_eq!(alternative_names("IP:127.0.0.1, DNS:dind,DNS:*.dind.ns").unwrap().len(), 3);
        for wrong in ["", "IP:dind", "URI:x", "DNS:", "DNS:a b", "dind"] {
            assert!(alternative_names(wrong).is_err(), "{wrong}");
        }
    }
}
