/** The browser cannot do the work, or the challenge has no solution. */
export class Unsupported extends Error {}

/** The engines cannot be fetched. */
export class Unreachable extends Error {}
