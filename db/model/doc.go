// Package model holds Tallygate's entities and the pure rules that belong to them: domains, names,
// plans, periods and the error type that every edge translates. It imports no other package of this
// project, and uses no database, network, clock or environment.
package model
