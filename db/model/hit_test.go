package model

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestPackRecent checks that recent views are read back as they were packed, whatever their times,
// and that cut bytes give only whole views.
func TestPackRecent(t *testing.T) {
	const base = Instant(1_795_000_000_000_000)
	random := rand.New(rand.NewPCG(1, 1))

	for range 1_000 {
		var views []RecentView
		for range random.IntN(9) {
			views = append(views, RecentView{At: base - Instant(random.Int64()>>random.IntN(63)), Path: random.Uint32()})
		}

		packed := PackRecent(views, base)
		if got := UnpackRecent(packed, base); !reflect.DeepEqual(got, views) {
			t.Fatalf("%v is read back as %v", views, got)
		}

		for cut := range packed {
			if got := UnpackRecent(packed[:cut], base); len(got) >= len(views) || len(got) > 0 && !reflect.DeepEqual(got, views[:len(got)]) {
				t.Fatalf("the first %d bytes of %v are read as %v", cut, views, got)
			}
		}
	}

	if packed := PackRecent([]RecentView{{At: base, Path: 1}}, base); len(packed) != 5 {
		t.Errorf("one view takes %d bytes, want 5", len(packed))
	}
}

// TestEventKinds checks the names in the contract's tables of events (section 2) and their kinds.
func TestEventKinds(t *testing.T) {
	for _, test := range []struct {
		name                           string
		automatic, ecommerce, reserved bool
	}{
		{"outbound_click", true, false, true},
		{"file_download", true, false, true},
		{"scroll", true, false, true},
		{"site_search", true, false, true},
		{"view_item", false, true, true},
		{"add_to_cart", false, true, true},
		{"begin_checkout", false, true, true},
		{"purchase", false, true, true},
		{"refund", false, true, true},
		{"pageview", false, false, true},
		{"engagement", false, false, true},
		{"signup", false, false, false},
		{"Purchase", false, false, false},
		{"purchase ", false, false, false},
		{"purchases", false, false, false},
		{"", false, false, false},
	} {
		automatic, ecommerce, reserved := IsAutomaticEvent(test.name), IsEcommerceEvent(test.name), IsReservedEvent(test.name)
		if automatic != test.automatic || ecommerce != test.ecommerce || reserved != test.reserved {
			t.Errorf("%q: automatic %v, e-commerce %v, reserved %v; want %v, %v, %v",
				test.name, automatic, ecommerce, reserved, test.automatic, test.ecommerce, test.reserved)
		}

		if reserved && !IsEventName(test.name) {
			t.Errorf("%q has a meaning but not the form of an event name", test.name)
		}
	}
}

// TestIsEventName checks the row "event name" of the contract's limits (section 8): 1 to 48
// characters, lower-case letters, digits, _ and -.
func TestIsEventName(t *testing.T) {
	for _, test := range []struct {
		rule, name string
		want       bool
	}{
		{"one character", "a", true},
		{"48 characters", strings.Repeat("a", 48), true},
		{"letters, digits, _ and -", "abcxyz-0189_", true},
		{"a digit first", "2nd-step", true},
		{"_ and - first", "_-", true},
		{"empty", "", false},
		{"49 characters", strings.Repeat("a", 49), false},
		{"a capital", "Signup", false},
		{"a space", "sign up", false},
		{"a space at the end", "signup ", false},
		{"a dot", "sign.up", false},
		{"a slash", "sign/up", false},
		{"before a", "`", false},
		{"after z", "{", false},
		{"before 0", "/", false},
		{"after 9", ":", false},
		{"a letter beyond ASCII", "größe", false},
		{"a digit beyond ASCII", "٣", false},
		{"NUL", "a\x00", false},
		{"a newline at the end", "signup\n", false},
		{"bytes that are no text", "\xff", false},
	} {
		testkit.Equal(t, IsEventName(test.name), test.want, "%s: IsEventName(%q)", test.rule, test.name)
	}
}

// TestRejectionAdvice checks that every code that the endpoints count has its own advice.
func TestRejectionAdvice(t *testing.T) {
	rejected := strings.Fields("bad_body bad_json bad_path unknown_event bad_event visitor_required domain_not_allowed quota_exceeded flood server_flood site_paused account_suspended")
	recorded := []string{RecordedPrivateIP}
	ignored := strings.Fields("bot excluded_address excluded_country excluded_path referrer_spam data_centre duplicate_transaction duplicate_pageview own_link")
	unknown := RejectionAdvice("something else")
	seen := map[string]bool{unknown: true}
	for _, code := range slices.Concat(rejected, recorded, ignored) {
		advice := RejectionAdvice(code)
		if seen[advice] || !strings.HasSuffix(advice, ".") {
			t.Errorf("%s: %q", code, advice)
		}

		seen[advice] = true

		if IsIgnored(code) != slices.Contains(ignored, code) || IsRecorded(code) != slices.Contains(recorded, code) {
			t.Errorf("%s is ignored: %v, recorded: %v", code, IsIgnored(code), IsRecorded(code))
		}
	}

	testkit.Equal(t, len(seen), len(rejectionAdvice)+1, "%d codes are tested, %d have advice", len(seen)-1, len(rejectionAdvice))
}
