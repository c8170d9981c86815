// An authority of the test's own that signs certificates, for tests of mutual TLS.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/support/certificate.h"

namespace saccade::test {

class Authority {
 public:
  Authority(std::filesystem::path folder, const std::string& name)
      : folder_(std::move(folder)), name_(name), key_(EVP_EC_gen("P-256")) {
    std::filesystem::create_directories(folder_);
    certificate_ = made(name_, key_, nullptr, 3600);
    add(certificate_, certificate_, NID_basic_constraints, "critical,CA:TRUE");
    add(certificate_, certificate_, NID_key_usage, "critical,keyCertSign,cRLSign");
    X509_sign(certificate_, key_, EVP_sha256());
    write(path(), certificate_);
  }
  ~Authority() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // PEM of the authority itself.
  std::string path() const { return folder_ / (name_ + ".ca.crt"); }

  // `names`: "DNS:localhost,IP:127.0.0.1". Valid from an hour ago for `valid_seconds` from now;
  // negative: expired.
  Certificate sign(const std::string& stem, const std::string& names, long valid_seconds = 3600) {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    X509* const certificate = made(stem, key, X509_get_subject_name(certificate_), valid_seconds);
    add(certificate, certificate_, NID_basic_constraints, "critical,CA:FALSE");
    add(certificate, certificate_, NID_ext_key_usage, "serverAuth,clientAuth");
    add(certificate, certificate_, NID_subject_alt_name, names.c_str());
    X509_sign(certificate, key_, EVP_sha256());
    Certificate written{folder_ / (name_ + "." + stem + ".crt"),
                        folder_ / (name_ + "." + stem + ".key")};
    write(written.certificate_path, certificate);
    std::FILE* const file = std::fopen(written.key_path.c_str(), "wb");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return written;
  }

 private:
  X509* made(const std::string& name, EVP_PKEY* key, const X509_NAME* issuer, long valid_seconds) {
    X509* const certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), valid_seconds);
    X509_set_pubkey(certificate, key);
    X509_NAME* const subject = X509_get_subject_name(certificate);
    const std::string common = "saccade test " + name_ + " " + name;
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate, issuer == nullptr ? subject : issuer);
    return certificate;
  }
  static void add(X509* to, X509* issuer, int what, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, what, value);
    X509_add_ext(to, extension, -1);
    X509_EXTENSION_free(extension);
  }
  static void write(const std::string& path, X509* certificate) {
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    PEM_write_X509(file, certificate);
    std::fclose(file);
  }

  const std::filesystem::path folder_;
  const std::string name_;
  EVP_PKEY* const key_;
  X509* certificate_ = nullptr;
  long serial_ = 0;
};

}  // namespace saccade::test
