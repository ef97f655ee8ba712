package target

// Flags select the instance and the account.
type Flags struct {
	Control  string `long:"control" default:"http://127.0.0.1:8080" env:"LOADGEN_CONTROL" value-name:"ORIGIN" unquote:"false" description:"Control plane of the running instance."`
	Data     string `long:"data" default:"127.0.0.1:8081" env:"LOADGEN_DATA" value-name:"HOST:PORT" unquote:"false" description:"Data plane, which must trust this machine as a proxy (TALLYGATE_TRUSTED_PROXIES) and have no flood limit that a load reaches (TALLYGATE_FLOOD_BURST and TALLYGATE_SERVER_FLOOD_BURST 1000000000)."`
	Email    string `long:"email" env:"LOADGEN_EMAIL" value-name:"ADDRESS" unquote:"false" description:"Account to sign in to. Empty: a new one is created."`
	Password string `long:"password" env:"LOADGEN_PASSWORD" value-name:"TEXT" unquote:"false" description:"Password of the account."`
	Token    string `long:"token" env:"LOADGEN_TOKEN" value-name:"TOKEN" unquote:"false" description:"API token, instead of the password."`
}

// Target returns the target that the flags name.
func (f *Flags) Target() Target {
	return Target{Control: f.Control, Data: f.Data, Email: f.Email, Password: f.Password, Token: f.Token}
}
