/** This browser cannot do the work, or the challenge has no answer. */
export class Unsupported extends Error {}

/** The engines cannot be fetched. */
export class Unreachable extends Error {}
