package captcha

// StoreTimeout is how long a request waits for its claim.
const StoreTimeout = storeTimeout

// NewWithin is New with a timeout other than StoreTimeout.
var NewWithin = newService
