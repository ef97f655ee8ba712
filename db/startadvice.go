package db

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// StartAdvice returns what an operator does about an error of PostgreSQL at the start, as the end
// of a sentence with a semicolon before it; "" for an error that says so itself.
func StartAdvice(err error) string {
	text := err.Error()
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	// The driver's own words.
	case strings.Contains(text, "client_encoding"):
		return "; create the database again: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
	case strings.Contains(text, "standard_conforming_strings"):
		return "; turn it on: ALTER DATABASE … SET standard_conforming_strings = on"
	case !ok:
		return ""
	}

	switch refused.Code {
	case "3D000": // invalid_catalog_name
		return "; create it: CREATE DATABASE … OWNER … ENCODING 'UTF8' TEMPLATE template0"
	case "42501", "3F000": // insufficient_privilege, invalid_schema_name: no schema to create tables in
		return "; let the role create tables: ALTER DATABASE … OWNER TO …, or GRANT CREATE, USAGE ON SCHEMA public TO …"
	case "28P01", "28000": // invalid_password, invalid_authorization_specification
		return "; correct the user and the password in TALLYGATE_DATABASE_URL, or the server's pg_hba.conf"
	}
	return ""
}
