<?php
// A shop's back end reports a purchase, when it is paid, with PHP 8 and no extension. The address and user agent are those of the
// visitor's request to the shop: they find the visit that the browser began, and are not stored.
//
//   ANALYTICS_URL=https://stats.example.com SERVER_SECRET=svcs_… php purchase.php '{"id": "T-1", …}'
declare(strict_types=1);

/**
 * Returns "recorded", "ignored" or "refused", and throws a RuntimeException if the purchase should be sent again later. The same
 * transaction_id counts once, so that a purchase can be sent again.
 */
function purchase(array $order): string
{
    if (!is_numeric($order['total'])) {
        throw new InvalidArgumentException("not an amount: {$order['total']}");
    }
    $body = json_encode([
        'event' => 'purchase',
        'ip' => $order['ip'],
        'user_agent' => $order['userAgent'],
        'path' => '/checkout/thanks',
        'meta' => [
            'transaction_id' => $order['id'],
            'value' => (float) $order['total'], // many shops have texts such as "19.90"
            'currency' => $order['currency'],
            'items' => $order['items'],
        ],
    ], JSON_THROW_ON_ERROR);
    $request = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => ['Content-Type: application/json', 'Authorization: Bearer ' . getenv('SERVER_SECRET')],
        'content' => $body,
        'timeout' => 10,
        'ignore_errors' => true, // read the answer of a refusal, too
    ]]);
    $answer = @fopen(getenv('ANALYTICS_URL') . '/server.php', 'r', false, $request);
    $text = $answer === false ? false : stream_get_contents($answer);
    $status = $answer === false ? 0 : (int) explode(' ', stream_get_meta_data($answer)['wrapper_data'][0])[1];
    if ($text === false || $status === 429 || $status >= 500) {
        throw new RuntimeException("send it again later: $status $text");
    }
    // Any other refusal is final. The answer may name the field.
    if ($status >= 300) {
        error_log("purchase {$order['id']} is refused: $status $text");
        return 'refused';
    }
    return json_decode($text, true, 8, JSON_THROW_ON_ERROR)['status'];
}

echo purchase(json_decode($argv[1], true, 8, JSON_THROW_ON_ERROR)), "\n";
