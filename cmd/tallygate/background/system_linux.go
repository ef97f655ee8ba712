package background

import (
	"os"
	"strconv"
	"strings"
)

// killScore is added to the process's score, from -1000 to 1000, by which the kernel chooses a
// process to end for a shortage of memory.
const killScore = 500

// executable returns the file of this program, also after an upgrade has replaced it: the child of
// a newer program would not know this parent.
func executable() (string, error) {
	const own = "/proc/self/exe"
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	return os.Executable()
}

// expectKill lets a shortage of memory end this process first. It also gives the process the
// program's name, because a process that was started from /proc/self/exe is called "exe".
func expectKill() error {
	const file = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(min(score+killScore, 1000))), 0); err != nil {
		return err
	}
	return os.WriteFile("/proc/self/comm", []byte("tallygate"), 0)
}
