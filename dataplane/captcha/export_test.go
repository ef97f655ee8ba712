package captcha

// StoreTimeout is how long a request waits for its claim.
const StoreTimeout = storeTimeout

// NewWithin is New with another bound than StoreTimeout.
var NewWithin = newService
