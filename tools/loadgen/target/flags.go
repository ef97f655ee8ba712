package target

// Flags select the instance and the account.
type Flags struct {
	Control  string `default:"http://127.0.0.1:8080" env:"LOADGEN_CONTROL" placeholder:"ORIGIN" help:"Control plane of the running instance."`
	Data     string `default:"127.0.0.1:8081" env:"LOADGEN_DATA" placeholder:"HOST:PORT" help:"Data plane, which must trust this machine as a proxy (TALLYGATE_TRUSTED_PROXIES) and have no flood limit that a load reaches (TALLYGATE_FLOOD_BURST and TALLYGATE_SERVER_FLOOD_BURST 1000000000)."`
	Email    string `env:"LOADGEN_EMAIL" placeholder:"ADDRESS" help:"Account to sign in to. Empty: a new one is created."`
	Password string `env:"LOADGEN_PASSWORD" placeholder:"TEXT" help:"Password of the account."`
	Token    string `env:"LOADGEN_TOKEN" placeholder:"TOKEN" help:"API token, instead of the password."`
}

// Target returns the target that the flags name.
func (f *Flags) Target() Target {
	return Target{Control: f.Control, Data: f.Data, Email: f.Email, Password: f.Password, Token: f.Token}
}
