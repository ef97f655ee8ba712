// Package tables describes the columns of the tables that hits and captcha claims are stored in,
// each once. The statements of package ingest, the arrays and scans of their rows, and the bulk
// loader are made from these descriptions, so that a new column takes one line here and one line in
// the migration.
//
// It runs no statement and knows no transaction.
package tables
