-- Nothing: the tables are kept in one part per month, and so are their indexes.
SELECT 1;
