(* gip.prop3: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Proposition 3 (eq. 25, 26).
   Each bit of I_0 in {0,1}^d is kept with probability p and flipped otherwise. This is eps_2-DP if p <= e^{eps_2/C_1} / (1 + e^{eps_2/C_1}), C_1 the index sensitivity. *)
From kernel Require Import definitions lemmas.

Fixpoint response (p : R) (I0 I : list bool) : R :=                    (* probability of the output I *)
  match I0, I with a :: I0', b :: I' => (if Bool.eqb a b then p else 1 - p) * response p I0' I' | _, _ => 1 end.
Definition private (d : nat) (p : R) (C1 : nat) (eps : R) : Prop :=
  forall I0 I1 I, length I0 = d -> length I1 = d -> length I = d -> (distance I0 I1 <= C1)%nat ->
  response p I0 I <= exp eps * response p I1 I.
Definition limit (C1 : nat) (eps : R) : R := exp (eps / INR C1) / (1 + exp (eps / INR C1)).
Definition printed : Prop := forall d p C1 eps, 0 <= p <= 1 -> 0 <= eps -> (0 < C1 <= d)%nat ->
  p <= limit C1 eps -> private d p C1 eps.
(* if and only if the larger of p and 1 - p is *)
Definition correction : Prop := forall d p C1 eps, 0 <= p <= 1 -> 0 <= eps -> (0 < C1 <= d)%nat ->
  (Rmax p (1 - p) <= limit C1 eps <-> private d p C1 eps).

Lemma limit_pos C1 eps : 0 < limit C1 eps < 1.
Proof.
  unfold limit. pose proof (exp_pos (eps / INR C1)) as x0. set (x := exp (eps / INR C1)) in *. split; [apply Rdiv_lt_0_compat; lra|].
  apply (Rmult_lt_reg_r (1 + x)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.
Lemma response_nonneg p I0 I : 0 <= p <= 1 -> 0 <= response p I0 I.
Proof. intro h. revert I; induction I0 as [|a I0 IH]; intros [|b I]; simpl; try lra. specialize (IH I). destruct (Bool.eqb a b); apply Rmult_le_pos; lra. Qed.
(* with p = x q, 1 - p = q and x >= 1, or the other way round, every place costs at most a factor x *)
Lemma cost p x : 0 <= p <= 1 -> 1 <= x -> p <= x * (1 - p) -> 1 - p <= x * p -> forall I0 I1 I, length I0 = length I -> length I1 = length I ->
  response p I0 I <= x ^ distance I0 I1 * response p I1 I.
Proof.
  intros h x1 a b I0. induction I0 as [|c I0 IH]; intros [|c1 I1] [|i I] l l'; try discriminate; [simpl; lra|].
  injection l as l. injection l' as l'. specialize (IH I1 I l l'). cbn [response distance].
  pose proof (response_nonneg p I0 I h). pose proof (response_nonneg p I1 I h).
  assert (0 < x ^ distance I0 I1) by (apply pow_lt; lra). set (X := x ^ distance I0 I1) in *. set (P0 := response p I0 I) in *. set (P1 := response p I1 I) in *.
  assert (0 <= X * P1) by (apply Rmult_le_pos; lra).
  destruct c, c1, i; cbn [Bool.eqb plus]; cbn [pow]; fold X;
    first [ apply Rle_trans with (p * (X * P1)); [apply Rmult_le_compat_l; lra|]; nra
          | apply Rle_trans with ((1 - p) * (X * P1)); [apply Rmult_le_compat_l; lra|]; nra ].
Qed.
Lemma exp_pow x k : exp x ^ k = exp (INR k * x).
Proof. induction k; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|]. cbn [pow]. rewrite IHk, <- exp_plus, S_INR. f_equal. ring. Qed.
Definition same (p : R) (b c : bool) : R := if Bool.eqb b c then p else 1 - p.
Lemma response_app p a b a' b' : length a = length a' -> response p (a ++ b) (a' ++ b') = response p a a' * response p b b'.
Proof. revert a'; induction a as [|x a IH]; intros [|y a'] l; try discriminate; simpl; [ring|]. rewrite IH by (simpl in l; lia). ring. Qed.
Lemma distance_app a b a' b' : length a = length a' -> distance (a ++ b) (a' ++ b') = (distance a a' + distance b b')%nat.
Proof. revert a'; induction a as [|x a IH]; intros [|y a'] l; try discriminate; simpl; [lia|]. rewrite IH by (simpl in l; lia). lia. Qed.
Lemma response_repeat p b c k : response p (repeat b k) (repeat c k) = same p b c ^ k.
Proof. induction k; simpl; [reflexivity|]. rewrite IHk. reflexivity. Qed.
Lemma distance_repeat b c k : distance (repeat b k) (repeat c k) = (if Bool.eqb b c then 0 else k)%nat.
Proof. induction k; simpl; [destruct (Bool.eqb b c); reflexivity|]. rewrite IHk. destruct (Bool.eqb b c); lia. Qed.
Theorem correction_holds : correction.
Proof.
  intros d p C1 eps h e0 [C0 Cd]. assert (c0 : 0 < INR C1) by (apply lt_0_INR; lia).
  unfold limit. set (x := exp (eps / INR C1)). assert (x0 : 0 < x) by apply exp_pos.
  assert (x1 : 1 <= x). { unfold x. rewrite <- exp_0. destruct (Req_dec eps 0) as [->|ne]; [right; f_equal; field; lra|].
    left. apply exp_increasing, Rdiv_lt_0_compat; lra. }
  assert (ex : exp eps = x ^ C1) by (unfold x; rewrite exp_pow; f_equal; field; lra).
  assert (eqv : forall q, q <= x / (1 + x) <-> q <= x * (1 - q)).
  { intro q. split; intro k.
    - assert (q * (1 + x) <= x / (1 + x) * (1 + x)) by (apply Rmult_le_compat_r; lra).
      replace (x / (1 + x) * (1 + x)) with x in H by (field; lra). lra.
    - apply (Rmult_le_reg_r (1 + x)); [lra|]. replace (x / (1 + x) * (1 + x)) with x by (field; lra). lra. }
  split.
  - intro k. assert (k1 : p <= x / (1 + x)) by (eapply Rle_trans; [apply Rmax_l | exact k]).
    assert (k2 : 1 - p <= x / (1 + x)) by (eapply Rle_trans; [apply Rmax_r | exact k]).
    apply eqv in k1. apply eqv in k2. replace (1 - (1 - p)) with p in k2 by ring.
    intros I0 I1 I l0 l1 l dist. eapply Rle_trans; [apply (cost p x h x1 k1 k2 I0 I1 I); congruence|].
    apply Rmult_le_compat_r; [apply response_nonneg, h|]. rewrite ex. apply Rle_pow; [exact x1 | exact dist].
  - intro priv.
    set (I b := repeat b C1 ++ repeat true (d - C1)). set (t := if Req_EM_T p 0 then false else true).
    set (J b := repeat b C1 ++ repeat t (d - C1)).
    assert (lI : forall b, length (I b) = d) by (intro; unfold I; rewrite app_length, !repeat_length; lia).
    assert (lJ : forall b, length (J b) = d) by (intro; unfold J; rewrite app_length, !repeat_length; lia).
    assert (dI : forall b c, (distance (I b) (I c) <= C1)%nat).
    { intros b c. unfold I. rewrite distance_app, !distance_repeat by (rewrite !repeat_length; reflexivity). destruct (Bool.eqb b c); simpl; lia. }
    assert (rJ : forall b c, response p (I b) (J c) = same p b c ^ C1 * same p true t ^ (d - C1)).
    { intros b c. unfold I, J. rewrite response_app, !response_repeat by (rewrite !repeat_length; reflexivity). reflexivity. }
    assert (t0 : 0 < same p true t ^ (d - C1)).
    { apply pow_lt. unfold same, t. destruct (Req_EM_T p 0); simpl; lra. }
    pose proof (priv (I true) (I false) (J true) (lI _) (lI _) (lJ _) (dI _ _)) as a.
    pose proof (priv (I false) (I true) (J true) (lI _) (lI _) (lJ _) (dI _ _)) as b.
    rewrite !rJ, ex in a, b. unfold same at 1 3 in a. unfold same at 1 3 in b. cbn [Bool.eqb] in a, b.
    rewrite <- Rmult_assoc in a, b. apply Rmult_le_reg_r in a; [|exact t0]. apply Rmult_le_reg_r in b; [|exact t0].
    assert (root : forall q r, 0 <= q -> 0 <= r -> q ^ C1 <= x ^ C1 * r ^ C1 -> q <= x * r).
    { intros q r q0 r0 le. rewrite <- Rpow_mult_distr in le. destruct (Rle_dec q (x * r)) as [y|n]; [exact y|].
      assert (H : x * r < q) by lra. assert (H0 : 0 <= x * r) by (apply Rmult_le_pos; lra).
      assert (up : forall y k, 0 <= y < q -> y ^ S k < q ^ S k).
      { intros y k [y0 yq]. induction k as [|k IH]; [simpl; lra|]. change (y * y ^ S k < q * q ^ S k).
        apply Rmult_le_0_lt_compat; [exact y0 | apply pow_le; exact y0 | exact yq | exact IH]. }
      destruct C1 as [|k]; [lia|]. specialize (up (x * r) k (conj H0 H)). lra. }
    apply Rmax_lub; apply eqv; apply root; try lra. replace (1 - (1 - p)) with p by ring. exact b.
Qed.
(* d = 1, p = 1/10, eps = log 2, C_1 = 1: the loss is log 9 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (e0 : 0 <= ln 2) by (rewrite <- ln_1; left; apply ln_increasing; lra).
  assert (l : limit 1 (ln 2) = 2 / 3).
  { unfold limit. replace (ln 2 / INR 1) with (ln 2) by (simpl; field). rewrite exp_ln by lra. field. }
  specialize (claim 1%nat (1 / 10) 1%nat (ln 2) ltac:(lra) e0 ltac:(lia) ltac:(rewrite l; lra)).
  specialize (claim [true] [false] [false] eq_refl eq_refl eq_refl ltac:(simpl; lia)).
  rewrite exp_ln in claim by lra. simpl in claim. lra.
Qed.
